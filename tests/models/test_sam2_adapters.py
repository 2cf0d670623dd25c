"""MultiLoRA and MTSAM on the trunk of SAM2: sizes, equality with LoRA, what is trained, and how they are trained."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import SGD

from helpers.small_sam2 import CHANNELS, SIZE, make_batch, make_model, task_losses, write_checkpoint
from torchsims import SIMS, Aggregated
from torchsims.aggregations import MGDA
from torchsims.models import SAM2MTL, Architecture, load_trainable, sam2_config, save_trainable
from torchsims.models.sam2.adapters import MultiLoRA, TaskTensor

NYUV2 = {"seg": 13, "depth": 1, "normals": 3}
ADAPTERS = ["multilora", "mtsam"]


def pixels(images: int = 2) -> Tensor:
    return torch.randn(images, 3, *SIZE, generator=torch.Generator().manual_seed(0))


def levels(model: SAM2MTL, images: Tensor) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = model.trunk(images).intermediate_hidden_states
    return found


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        ("large", {"adapter": "multilora", "rank": 32}, 10_655_712),
        ("tiny", {"adapter": "multilora", "rank": 16}, 913_248),
        ("large", {"adapter": "mtsam", "rank": 32}, 3_667_008),
    ],
)
def test_the_adapters_have_the_published_size(size: str, options: dict[str, Any], expected: int) -> None:
    with torch.device("meta"):
        model = SAM2MTL(NYUV2, sam2_config(size), **options)
    assert sum(p.numel() for name, p in model.trunk.named_parameters() if "lora_" in name) == expected


def test_what_is_trained() -> None:
    multilora, mtsam = (make_model(adapter=adapter) for adapter in ADAPTERS)
    assert all(p.requires_grad == ("lora_" in name) for name, p in multilora.trunk.named_parameters())
    for name, p in mtsam.trunk.named_parameters():
        assert p.requires_grad == ("lora_" in name or "layer_norm" in name), name
    assert all(p.requires_grad for name, p in multilora.named_parameters() if ".neck." in name)
    frozen = {name.split(".")[1] for name, p in mtsam.named_parameters() if ".neck." in name and not p.requires_grad}
    assert frozen == {"0"}  # one neck, listed once
    assert {name for name, p in mtsam.named_parameters() if ".neck." in name and p.requires_grad} == set()
    torch.stack(list(task_losses(mtsam, make_batch()).mean().values())).sum().backward()  # type: ignore[no-untyped-call]
    idle = [name for name, p in mtsam.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert all(name.endswith("k_proj.bias") for name in idle)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_untrained_adapter_is_the_frozen_encoder(adapter: str, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path)
    model = SAM2MTL(CHANNELS, tmp_path, rank=4, size=SIZE, adapter=adapter)
    with torch.no_grad():
        expected = source.vision_encoder.backbone(pixels(3)).intermediate_hidden_states
        for found, level in zip(levels(model, pixels(3)), expected, strict=True):
            torch.testing.assert_close(found, level, rtol=0, atol=0)


def test_multilora_is_one_lora_of_the_summed_rank() -> None:
    torch.manual_seed(0)
    base = nn.Linear(6, 9)
    ours = MultiLoRA(base, rank=2, parallel=3, scaling=0.5, dropout=0.0)
    nn.init.normal_(ours.lora_scale)
    config = LoraConfig(r=6, lora_alpha=3, lora_dropout=0.0, target_modules=["0"])
    theirs: Any = inject_adapter_in_model(config, nn.Sequential(base))
    with torch.no_grad():
        theirs[0].lora_A.default.weight.copy_(torch.cat(list(ours.lora_A)))
        scaled = [scale.diag() @ up for scale, up in zip(ours.lora_scale, ours.lora_B, strict=True)]
        theirs[0].lora_B.default.weight.copy_(torch.cat(scaled, dim=1))
        x = torch.randn(4, 5, 6)
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-6, atol=1e-6)
        assert (ours(x) - base(x)).abs().max() > 0.1


def test_multilora_starts_as_its_paper_says() -> None:
    torch.manual_seed(0)
    layer = MultiLoRA(nn.Linear(100, 300), rank=4, parallel=3, scaling=0.5, dropout=0.1)
    assert not layer.lora_scale.any()
    for matrices, bound in ((layer.lora_A, 100**-0.5), (layer.lora_B, 4**-0.5)):
        for matrix in matrices:
            assert bound * 0.95 < float(matrix.detach().abs().max()) <= bound


def test_mtsam_is_for_every_task_a_lora_of_peft() -> None:
    model, plain = make_model(adapter="mtsam").double(), make_model().double()
    with torch.no_grad():
        for name, p in plain.trunk.named_parameters():
            if "lora_" not in name:
                p.copy_(model.trunk.get_parameter(name))
        images = pixels().double()
        found = levels(model, images.repeat(3, 1, 1, 1))
        for task in range(3):
            for ours, theirs in zip(model.trunk.blocks, plain.trunk.blocks, strict=True):
                tensor, lora = ours.attn.qkv, theirs.attn.qkv
                core = sum(u * g for u, g in zip(tensor.lora_task[task], tensor.lora_core, strict=True))
                lora.lora_A.default.weight.copy_(tensor.lora_in.T)
                lora.lora_B.default.weight.copy_(tensor.lora_out @ core.T)
            for level, expected in zip(found, levels(plain, images), strict=True):
                torch.testing.assert_close(level.chunk(3)[task], expected, rtol=1e-9, atol=1e-9)
    assert (found[-1].chunk(3)[0] - found[-1].chunk(3)[1]).abs().max() > 1e-2


def test_equal_tasks_of_mtsam_have_equal_features() -> None:
    model = make_model(adapter="mtsam")
    with torch.no_grad():
        for block in model.trunk.blocks:
            block.attn.qkv.lora_task[:] = block.attn.qkv.lora_task[0].clone()
        for level in levels(model, pixels().repeat(3, 1, 1, 1)):
            first, *others = level.chunk(3)
            for other in others:
                torch.testing.assert_close(first, other)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_permuted_tasks_have_permuted_outputs(adapter: str) -> None:
    model, image = make_model(adapter=adapter), make_batch()["image"]
    order = [2, 0, 1]
    names = [list(CHANNELS)[i] for i in order]
    options: dict[str, Any] = {"rank": 4, "dropout": 0.0, "size": SIZE, "adapter": adapter}
    other = SAM2MTL({task: CHANNELS[task] for task in names}, sam2_config("toy"), **options)
    with torch.no_grad():
        for name, p in other.named_parameters():
            parts = name.split(".")
            if parts[0] == "heads" and (parts[2] != "neck" or adapter == "multilora"):  # MTSAM has one neck
                parts[1] = str(order[int(parts[1])])
            value = model.get_parameter(".".join(parts))
            p.copy_(value[order] if name.endswith("lora_task") else value)
        other.position.positional_embedding.copy_(model.position.positional_embedding)
        expected, found = model(image), other(image)
    assert list(found) == names
    for task in CHANNELS:
        torch.testing.assert_close(found[task], expected[task], rtol=1e-4, atol=1e-5)


def test_the_trunk_runs_once_and_sees_an_image_once_per_task_with_mtsam() -> None:
    for adapter, images in {"multilora": 4, "mtsam": 12}.items():
        model = make_model(adapter=adapter)
        runs: list[int] = []
        model.trunk.register_forward_pre_hook(lambda _, args, runs=runs: runs.append(len(args[0])))
        model(make_batch(images=4)["image"])
        assert runs == [images]


def test_mtsam_never_forms_the_matrices_of_the_tasks() -> None:
    side, rank, tasks = 64, 2, 3
    sizes: list[int] = []
    layer = TaskTensor(nn.Linear(side, side), tasks, rank, 4, 0.5, 0.0)
    x = torch.randn(tasks * 2, 1, side, requires_grad=True)

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(x).sum()
    assert max(sizes) == side * side  # the frozen matrix


def test_the_regularizer_of_mtsam_is_the_mean_distance_to_orthonormal_columns() -> None:
    model = make_model(adapter="mtsam", orthogonality=0.1)
    matrices = [
        u.detach()
        for block in model.trunk.blocks
        for u in (block.attn.qkv.lora_in, block.attn.qkv.lora_out, *block.attn.qkv.lora_core)
    ]
    expected = sum(float((u.T @ u - torch.eye(4)).square().sum().sqrt()) for u in matrices) / len(matrices)
    value = model.regularizer()
    assert value is not None
    assert float(value.detach()) == pytest.approx(0.1 * expected, rel=1e-5)
    value.backward()  # type: ignore[no-untyped-call]
    touched = {name.split(".")[-1] for name, p in model.named_parameters() if p.grad is not None}
    assert touched == {"lora_in", "lora_out", "lora_core"}
    assert make_model(adapter="multilora").regularizer() is None
    assert make_model(adapter="mtsam", orthogonality=0.0).regularizer() is None


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_file_holds_what_is_trained_and_nothing_else(adapter: str, tmp_path: Path) -> None:
    model, other, image = make_model(adapter=adapter), make_model(adapter=adapter), make_batch()["image"]
    file = tmp_path / "model.safetensors"
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.mul_(1.1)
    save_trainable(model, file)
    assert set(load_file(file)) == {name for name, p in model.named_parameters() if p.requires_grad}
    load_trainable(other, file)
    with torch.no_grad():
        expected, found = model(image), other(image)
    assert all(torch.equal(expected[task], found[task]) for task in CHANNELS)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_micro_batches_and_activation_checkpointing_change_no_step(adapter: str) -> None:
    found = []
    batch = {k: v.double() if v.is_floating_point() else v for k, v in make_batch().items()}
    quarters = [{name: value[i : i + 1] for name, value in batch.items()} for i in range(4)]
    for checkpointing, batches in ((False, [batch]), (True, [batch]), (False, quarters)):
        model = make_model(adapter=adapter, checkpointing=checkpointing).double()
        method = SIMS(model, outer=partial(SGD, lr=1e-2), inner=partial(SGD, lr=5e-2))
        losses = [dict(method.step(task_losses, *batches).losses) for _ in range(2)]
        found.append([float(value) for each in losses for value in each.values()])
    assert found[1] == pytest.approx(found[0], rel=1e-9)
    assert found[2] == pytest.approx(found[0], rel=1e-9)


def test_gradients_at_the_representation_need_a_shared_one() -> None:
    make = partial(Aggregated, aggregation=MGDA(), outer=partial(SGD, lr=1e-3), shared="representation")
    with pytest.raises(ValueError, match=r"if all tasks share one representation. Found `SAM2MTL`, which computes one"):
        make(make_model(adapter="mtsam"), features="trunk")
    report = make(make_model(adapter="multilora"), features="trunk").step(task_losses, make_batch())
    assert sum(report.weights.values()) == pytest.approx(1.0, rel=1e-4)


def test_the_command_line_names_the_adapter() -> None:
    text = "sam2:encoder=toy:rank=4:size=64:adapter=mtsam:task_rank=2"
    architecture = Architecture.parse(text, ["hps", "sam2"])
    assert str(architecture) == text
    model: Any = architecture.build(CHANNELS, {})
    assert model.trunk.blocks[0].attn.qkv.lora_core.shape == (2, 4, 4)
    single: Any = architecture.as_single_task().build(CHANNELS, {})
    assert all(len(network.trunk.blocks[0].attn.qkv.lora_task) == 1 for network in single.networks)
    with pytest.raises(ValueError, match=r"There is no adapter `lorra`. Did you mean `lora`"):
        Architecture.parse("sam2:adapter=lorra", ["hps", "sam2"])
