"""The paper's model: its sizes, its parts against Sam2's own, and what steppers do with it."""

import importlib
import math
import runpy
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import interpolate
from torch.optim import SGD, Adam
from torch.utils.data import default_collate

from helpers.small_folders import photographs, write_pascal
from helpers.small_sam2 import (
    CHANNELS,
    SIZE,
    make_batch,
    make_model,
    make_sims,
    make_source,
    task_losses,
    write_checkpoint,
    write_video_checkpoint,
)
from torchsims import SIMS, Scalarized
from torchsims.data import NYUv2, PASCALContext
from torchsims.metrics import Normals, Saliency, Segmentation
from torchsims.models import SAM2MTL, load_trainable, sam2_config, save_trainable
from torchsims.scalarizations import EW

STEPS_BENCH = Path(__file__).parents[2] / "bench" / "steps.py"
NYUV2 = {"seg": 13, "depth": 1, "normals": 3}


def number(parameters: Any) -> int:
    return sum(p.numel() for p in parameters)


def test_the_sizes_are_those_of_the_paper() -> None:
    with torch.device("meta"):
        model = SAM2MTL(NYUV2, sam2_config("large"))
    adapters = {name: p for name, p in model.trunk.named_parameters() if p.requires_grad}
    assert number(adapters.values()) == 3_469_824
    assert len(adapters) == 2 * (2 + 6 + 36 + 4)
    assert adapters["blocks.0.attn.qkv.lora_A.default.weight"].shape == (32, 144)
    assert adapters["blocks.47.attn.qkv.lora_B.default.weight"].shape == (3 * 1152, 32)
    assert number(p for p in model.trunk.parameters() if not p.requires_grad) == 212_149_296
    heads: list[Any] = list(model.heads)
    assert number(p for head in heads for p in head.decoder.parameters()) == 12_645_327
    assert number(p for head in heads for p in head.decoder.parameters() if p.requires_grad) == 10_593_696
    assert [tuple(c.weight.shape) for c in heads[0].neck.convs] == [(256, n, 1, 1) for n in (1152, 576, 288, 144)]
    assert [tuple(head.prompts.shape) for head in heads] == [(13, 256), (1, 256), (3, 256)]
    trained = 3_469_824 + 10_593_696 + 3 * 256 * (1152 + 576 + 288 + 144 + 4) + 17 * 256
    assert number(p for p in model.parameters() if p.requires_grad) == trained


def test_the_published_sizes_are_known() -> None:
    with torch.device("meta"):
        sizes = {size: number(SAM2MTL({"depth": 1}, sam2_config(size)).trunk.parameters()) for size in ("tiny", "toy")}
    assert sizes["tiny"] == pytest.approx(27.2e6, rel=0.06)  # with its neck, and without adapters
    assert sizes["toy"] < 1e-3 * 212.7e6
    with pytest.raises(ValueError, match=r"should be one of toy, tiny, small, base-plus, large. Found"):
        sam2_config("huge")


def test_every_qkv_has_an_adapter_and_the_rest_of_the_trunk_is_frozen() -> None:
    model = SAM2MTL(CHANNELS, sam2_config("toy"), size=64)
    for block in model.trunk.blocks:
        assert block.attn.qkv.scaling == {"default": 0.5}
        assert block.attn.qkv.r == {"default": 32}
        assert block.attn.qkv.lora_dropout["default"].p == 0.1
    assert all(p.requires_grad == ("lora_" in name) for name, p in model.trunk.named_parameters())
    with_norms = SAM2MTL(CHANNELS, sam2_config("toy"), size=64, norms=True)
    trained = {name for name, p in with_norms.trunk.named_parameters() if p.requires_grad and "lora_" not in name}
    assert trained == {
        f"blocks.{i}.layer_norm{k}.{part}" for i in range(5) for k in (1, 2) for part in ("weight", "bias")
    }


def by_sam2(source: Any, prompts: Tensor, image: Tensor) -> Tensor:
    """Return what Sam2's own modules say, one image and one channel at a time; of all four masks, the first."""
    pixels = interpolate(image, SIZE, mode="bilinear", antialias=True)
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    fine, middle, embedding = source.vision_encoder((pixels - mean) / std).fpn_hidden_states
    decoder = source.mask_decoder
    masks = [
        decoder(
            image_embeddings=embedding[i : i + 1],
            image_positional_embeddings=source.get_image_wide_positional_embeddings(),
            sparse_prompt_embeddings=torch.zeros(1, 1, 0, 32),
            dense_prompt_embeddings=prompt.view(1, -1, 1, 1),
            multimask_output=False,
            high_resolution_features=[decoder.conv_s0(fine[i : i + 1]), decoder.conv_s1(middle[i : i + 1])],
        )[0][0, 0]
        for i in range(len(image))
        for prompt in prompts
    ]
    return torch.cat(masks).view(len(image), len(prompts), *fine.shape[-2:])


def test_predictions_are_those_of_sam2_before_training(tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path)
    source.mask_decoder.dynamic_multimask_via_stability = False
    model = SAM2MTL(CHANNELS, tmp_path, size=SIZE)
    prompts = {task: model.get_parameter(f"heads.{i}.prompts") for i, task in enumerate(CHANNELS)}
    image = make_batch(images=2)["image"]
    with torch.no_grad():
        found = model(image)
        for task in CHANNELS:
            expected = interpolate(by_sam2(source, prompts[task], image), image.shape[-2:], mode="bilinear")
            torch.testing.assert_close(found[task], expected, rtol=1e-4, atol=1e-6)
            assert expected.std() > 1e-3
    start = source.prompt_encoder.no_mask_embed.weight + source.no_memory_embedding[0]
    assert (prompts["seg"] - start).std().item() == pytest.approx(0.02, rel=0.3)


def test_training_and_evaluation_decode_the_same_mask() -> None:
    model, image = make_model(), make_batch()["image"]
    with torch.no_grad():
        trained, evaluated = model.train()(image), model.eval()(image)
    assert all(torch.equal(trained[task], evaluated[task]) for task in CHANNELS)


def test_the_trunk_runs_once_for_all_tasks() -> None:
    model, runs = make_model(), []
    for block in model.trunk.blocks:
        block.register_forward_hook(lambda module, *_: runs.append(module))
    model(make_batch()["image"])
    assert runs == list(model.trunk.blocks)


def test_images_are_normalised_once() -> None:
    model = make_model()
    seen: list[Tensor] = []
    model.trunk.patch_embed.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    model((mean + 2 * std).view(1, 3, 1, 1).expand(2, 3, 20, 30))
    torch.testing.assert_close(seen[0], torch.full((2, 3, *SIZE), 2.0), rtol=1e-5, atol=1e-5)


def test_each_task_has_features_of_its_own() -> None:
    model, image = make_model(), make_batch()["image"]
    before = {task: out.detach() for task, out in model(image).items()}
    with torch.no_grad():
        model.get_parameter("heads.1.neck.convs.3.weight").mul_(2.0)  # the finest level
    after = model(image)
    assert [task for task in CHANNELS if not torch.equal(before[task], after[task])] == ["depth"]
    after["depth"].square().sum().backward()
    touched = {
        name.split(".")[1] for name, p in model.named_parameters() if name.startswith("heads") and p.grad is not None
    }
    assert touched == {"1"}


def test_every_trainable_parameter_takes_part() -> None:
    model = make_model()
    torch.stack(list(task_losses(model, make_batch()).mean().values())).sum().backward()  # type: ignore[no-untyped-call]
    idle = [name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    # A softmax does not see what is added to all of its logits: biases of keys are idle up to rounding.
    assert all(name.endswith("k_proj.bias") for name in idle)
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)


@pytest.mark.parametrize(("size", "label"), [(32, (32, 32)), ((96, 64), (33, 47)), ((64, 128), (16, 64))])
def test_any_multiple_of_32_goes_in_and_any_size_comes_back(size: Any, label: tuple[int, int]) -> None:
    out = SAM2MTL(CHANNELS, sam2_config("toy"), rank=2, size=size)(torch.rand(2, 3, *label))
    assert {task: tuple(o.shape) for task, o in out.items()} == {t: (2, n, *label) for t, n in CHANNELS.items()}


def test_an_image_is_predicted_alike_in_any_batch() -> None:
    model, image = make_model().eval(), make_batch()["image"]
    with torch.no_grad():
        alone, together = model(image[2:3]), model(image)
    for task in CHANNELS:
        torch.testing.assert_close(alone[task], together[task][2:3], rtol=1e-4, atol=1e-6)


# Checkpoints


def test_a_published_checkpoint_loads(tmp_path: Path) -> None:
    published = write_video_checkpoint(tmp_path)
    model = SAM2MTL(CHANNELS, str(tmp_path), size=64)
    state = published.vision_encoder.backbone.state_dict()
    for name, value in model.trunk.state_dict().items():
        if "lora_" not in name:
            assert torch.equal(value, state[name.replace(".base_layer", "")]), name
    for i in range(len(CHANNELS)):
        own, theirs = (
            model.get_parameter(f"heads.{i}.decoder.mask_tokens.weight"),
            published.mask_decoder.mask_tokens,
        )
        assert torch.equal(own, theirs.weight)
        own, neck = model.get_parameter(f"heads.{i}.neck.convs.0.weight"), published.vision_encoder.neck
        assert torch.equal(own, neck.convs[0].weight)
    assert torch.equal(model.position.positional_embedding, published.shared_image_embedding.positional_embedding)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return folder


def changed(checkpoint: Path, folder: Path, change: Any) -> Path:
    """Return a copy of the checkpoint whose tensors were changed."""
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_checkpoint_that_does_not_match_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    key = "vision_encoder.backbone.blocks.3.attn.qkv.weight"
    changes: dict[str, Any] = {
        "1 missing": lambda t: t.pop(key),
        "1 missing .*, 1 unexpected": lambda t: t.update({key.replace("3.attn", "7.attn"): t.pop(key)}),
        "1 of another shape": lambda t: t.update({key: t[key][:-1].clone()}),
        "1 missing (.no_memory_embedding.)": lambda t: t.pop("no_memory_embedding"),
    }
    for i, (message, change) in enumerate(changes.items()):
        with pytest.raises(ValueError, match=f"should hold every tensor of a full Sam2 model. Found {message}"):
            SAM2MTL(CHANNELS, changed(checkpoint, tmp_path / str(i), change), size=64)


def test_the_vision_encoder_alone_is_refused(tmp_path: Path) -> None:
    make_source().vision_encoder.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"Found \d+ missing \(vision_encoder.backbone.blocks.0"):
        SAM2MTL(CHANNELS, tmp_path, size=64)


def test_a_folder_that_is_no_checkpoint_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"encoder = '.*/nowhere'`, which is no folder."):
        SAM2MTL(CHANNELS, tmp_path / "nowhere", size=64)
    with pytest.raises(ValueError, match=r"hub id of a Sam2 checkpoint. Found .*, which cannot be loaded: "):
        SAM2MTL(CHANNELS, tmp_path, size=64)
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(ValueError, match=r"hub id of a Sam2 checkpoint. Found .*, which cannot be loaded: "):
        SAM2MTL(CHANNELS, tmp_path, size=64)
    with pytest.raises(TypeError, match=r"a folder, a hub id or a `Sam2Config`. Found a int"):
        SAM2MTL(CHANNELS, 3, size=64)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"outputs": {}}, "Parameter `outputs` should name at least one task. Found none."),
        ({"outputs": {"seg": 0}}, "The outputs of task `seg` should be positive. Found 0."),
        ({"rank": 0}, "Parameter `rank` should be positive. Found `rank = 0`."),
        ({"scaling": 0.0}, "Parameter `scaling` should be positive. Found `scaling = 0.0`."),
        ({"dropout": 1.0}, "Parameter `dropout` should be in .0, 1.. Found `dropout = 1.0`."),
        ({"parallel": 0}, "Parameter `parallel` should be positive. Found `parallel = 0`."),
        ({"task_rank": 0}, "Parameter `task_rank` should be positive. Found `task_rank = 0`."),
        ({"orthogonality": -1.0}, "Parameter `orthogonality` should not be negative. Found `orthogonality = -1.0`."),
        (
            {"adapter": "mtsamm"},
            "There is no adapter `mtsamm`. Did you mean `mtsam`. The names are lora, multilora, mtsam",
        ),
        ({"size": 100}, "Parameter `size` should be one or two multiples of 32. Found `size = 100`."),
        ({"size": (64, 0)}, r"Parameter `size` should be one or two multiples of 32. Found `size = \(64, 0\)`."),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SAM2MTL(**{"outputs": CHANNELS, "encoder": sam2_config("toy"), **options})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = sam2_config("toy")
    monkeypatch.delitem(sys.modules, "torchsims.models.sam2.parts", raising=False)
    monkeypatch.delattr(importlib.import_module("torchsims.models.sam2"), "parts", raising=False)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ImportError, match=r"pip install 'torchsims\[vision\]'. Found: .*peft"):
        SAM2MTL(CHANNELS, config, size=64)


# Saving


def test_trainable_tensors_alone_are_saved_and_come_back(tmp_path: Path) -> None:
    model, image = make_model(seed=1), make_batch()["image"]
    file = tmp_path / "model.safetensors"
    save_trainable(model, file)
    assert set(load_file(file)) == {name for name, p in model.named_parameters() if p.requires_grad}
    other = make_model(seed=2)
    state = {
        k: v for k, v in model.state_dict().items() if not dict(model.named_parameters()).get(k, image).requires_grad
    }
    other.load_state_dict(state, strict=False)  # the frozen part comes from a checkpoint, as here
    load_trainable(other, file)
    with torch.no_grad():
        expected, found = model(image), other(image)
    assert all(torch.equal(expected[task], found[task]) for task in CHANNELS)


def test_a_file_of_another_model_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_trainable(make_model(rank=4), file)
    model = make_model(rank=8)
    before = {name: p.clone() for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match=r"lora_A.default.weight` .* Found \(8, 8\) in the model and \(4, 8\) in"):
        load_trainable(model, file)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    with pytest.raises(ValueError, match=r"`bias` .* Found \(1,\) in the model and none in the file."):
        load_trainable(nn.Linear(1, 1), file)
    file.write_bytes(b"not tensors")
    with pytest.raises(ValueError, match="should be in the format safetensors"):
        load_trainable(model, file)
    with pytest.raises(FileNotFoundError, match="Found no such file"):
        load_trainable(model, tmp_path / "nowhere")


# Steppers


@pytest.mark.parametrize("evaluation", ["sequential", "joint"])
def test_the_copies_share_what_is_frozen(evaluation: str) -> None:
    model = make_model()
    method = make_sims(model, evaluation=evaluation)
    method.step(task_losses, make_batch())
    theta = {p.data_ptr() for p in model.parameters() if p.requires_grad}
    with method._challenger.module() as module:
        frozen, twin = ([p for p in m.parameters() if not p.requires_grad] for m in (model, module))
        assert [p.data_ptr() for p in frozen] == [p.data_ptr() for p in twin]
    assert number(method._challenger.parameters) == number(p for p in model.parameters() if p.requires_grad)
    assert theta.isdisjoint(p.data_ptr() for p in method._challenger.parameters)


def test_both_copies_see_the_same_dropout() -> None:
    torch.manual_seed(3)
    report = make_sims(make_model(dropout=0.3)).step(task_losses, make_batch())
    assert float(report.merit) == pytest.approx(5.0 * math.log(3), rel=1e-6)


@pytest.mark.parametrize("evaluation", ["sequential", "joint"])
def test_activation_checkpointing_changes_no_number(evaluation: Literal["sequential", "joint"]) -> None:
    found = []
    for checkpointing in (False, True):
        model = make_model(dropout=0.3, checkpointing=checkpointing)
        rates: dict[str, Any] = {"outer": partial(SGD, lr=1e-2), "inner": partial(SGD, lr=5e-2)}
        method = SIMS(model, evaluation=evaluation, **rates)
        torch.manual_seed(4)
        reports = [method.step(task_losses, make_batch(seed=step)) for step in range(3)]
        found.append(([r.losses for r in reports], torch.cat([p.detach().flatten() for p in model.parameters()])))
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


def kept_bytes(model: SAM2MTL) -> int:
    """Return how much the trunk keeps for its backward pass."""
    sizes: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.trunk(torch.rand(2, 3, *SIZE))
    return sum(sizes)


def test_activation_checkpointing_keeps_less() -> None:
    assert kept_bytes(make_model(checkpointing=True)) < 0.2 * kept_bytes(make_model())


def test_sequential_sims_pays_for_the_adapters_and_heads_only() -> None:
    """Beyond EW: the challenger, its gradients, and two tensors of its optimizer; bench/sam2.py measures real sizes."""
    counters, size = [], 0
    make_ew = partial(Scalarized, scalarization=EW(), outer=partial(Adam, lr=1e-3))
    for make in (make_ew, make_sims):
        with runpy.run_path(str(STEPS_BENCH))["PeakBytes"]() as counter:
            model = make_model()
            method, batch = make(model), make_batch()
            for _ in range(2):
                method.step(task_losses, batch)
        counters.append(counter.peak)
        size = 4 * number(p for p in model.parameters() if p.requires_grad)
    assert counters[1] - counters[0] < 4.2 * size
    assert number(model.parameters()) > 1.5 * size / 4


def test_pascal_tasks_and_an_image_without_a_person(tmp_path: Path) -> None:
    write_pascal(tmp_path)
    data = PASCALContext(tmp_path, resolution=(32, 32))
    torch.manual_seed(0)
    model = SAM2MTL(data.channels, sam2_config("toy"), rank=4, size=32)
    metrics = {"seg": Segmentation(21), "parts": Segmentation(7), "normals": Normals(), "saliency": Saliency()}
    method = make_sims(model)
    nobody, everybody = (default_collate([data[i] for i in indices]) for indices in ([1], [0, 1, 2]))
    assert float(method.step(task_losses, nobody).weights["parts"]) == 0
    report = method.step(task_losses, everybody)
    assert all(float(weight) > 0 for weight in report.weights.values())
    with torch.no_grad():
        predictions = model.eval()(everybody["image"])
    for task, metric in metrics.items():
        metric.update(predictions[task], everybody[task])
        assert all(value.isfinite() for value in metric.compute().values())


def test_real_photographs_are_learnt(tmp_path: Path) -> None:
    photographs(tmp_path, "train", limit=4)
    data = NYUv2(tmp_path, tasks=("seg", "depth"), resolution=(48, 64))
    batch = default_collate([data[i] for i in range(4)])
    torch.manual_seed(0)
    model = SAM2MTL(data.channels, sam2_config("toy"), rank=4, size=(64, 96))
    method = SIMS(model, evaluation="joint", outer=partial(Adam, lr=1e-2), inner=partial(Adam, lr=2e-2))
    reports = [method.step(task_losses, batch) for _ in range(13)]
    for task in data.tasks:
        assert float(reports[-1].losses[task]) < 0.8 * float(reports[0].losses[task])
