"""SwinMTL and VTAGML: sizes, what they are without adaptation, and how they are trained."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from transformers import SwinModel

from helpers.small_swin import CHANNELS, NAMES, make, make_batch, run_steps, swin_config, swinv2_config, task_losses
from torchsims import Aggregated
from torchsims.aggregations import MGDA
from torchsims.methods import Method, catalogue
from torchsims.models import VTAGML, Architecture, SingleTask, SwinMTL
from torchsims.models.dense.swin import to_tokens
from torchsims.models.dense.vtagml import TaskAttention

NYUV2 = {"seg": 13, "depth": 1, "normals": 3}


def number(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


# Sizes


def test_the_sizes_are_the_published_ones() -> None:
    with torch.device("meta"):
        swinmtl, vtagml = SwinMTL(NYUV2), VTAGML(NYUV2)
        without = VTAGML(NYUV2, adapters=False, adapted=0)
    assert number(swinmtl) == 87_532_873
    assert number(swinmtl.trunk) == 86_893_816
    assert number(swinmtl.decoder) == 176_704
    assert number(vtagml) == 82_378_919
    assert number(vtagml.decoders) == 20_286_318
    assert number(vtagml.stem) + number(vtagml.norm) + number(without.stages) == 48_837_258
    attentions = [m for m in vtagml.modules() if isinstance(m, TaskAttention)]
    assert [number(m) - number(m.attention) for m in attentions] == [5_159] * 6
    assert sum(number(stage.get_submodule("adapters")) for stage in vtagml.stages) == 11_669_696


# Laws


@pytest.mark.parametrize("adapted", [0, 2])
def test_vtagml_without_adaptation_is_the_swin_transformer(adapted: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    theirs = SwinModel(swin_config())
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path)
    model: Any = VTAGML(CHANNELS, f"{tmp_path}/", adapted=adapted, adapters=False)
    image = make_batch(dtype=torch.float32)["image"]
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, TaskAttention):
                module.modulation.weight.zero_()
        features, skips = model.encode(image)
        found = theirs((image - model.mean) / model.std, output_hidden_states=True)
    for own in features.chunk(2):
        torch.testing.assert_close(to_tokens(own), found.last_hidden_state, rtol=1e-4, atol=1e-5)
    for skip, expected in zip(skips, found.hidden_states[:3], strict=True):
        torch.testing.assert_close(to_tokens(skip), expected, rtol=1e-4, atol=1e-5)


def test_the_attention_of_a_task_is_the_formula() -> None:
    torch.manual_seed(0)
    seen: list[Tensor] = []

    class Attention(nn.Module):
        def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
            seen.append(mask)
            return tokens

    layer = TaskAttention(Attention(), 3)
    nn.init.normal_(layer.base)
    embeddings, shift = torch.randn(2, 27), torch.randn(2, 9, 9)
    layer(torch.zeros(2 * 3 * 2, 9, 5), shift, embeddings=embeddings)  # two tasks, three images, two windows
    for task, e in enumerate(embeddings):
        scale, offset = layer.modulation(e).chunk(2)
        rows = (1 + scale) * layer.base + offset
        expected = torch.block_diag(*rows.split(3))  # type: ignore[no-untyped-call]
        for index in range(6):
            torch.testing.assert_close(seen[0][6 * task + index], expected + shift[index % 2])


def test_equal_embeddings_give_equal_features_and_others_do_not() -> None:
    for adapters in (True, False):
        model: Any = make("vtagml", adapters=adapters)
        image = make_batch(dtype=torch.float32)["image"]
        with torch.no_grad():
            one, other = model.encode(image)[0].chunk(2)
            assert (one - other).abs().max() > 1e-3
            model.embeddings[1] = model.embeddings[0]
            one, other = model.encode(image)[0].chunk(2)
            torch.testing.assert_close(one, other)


def test_what_tasks_have_in_common_is_computed_once() -> None:
    model: Any = make("vtagml")  # the last of two blocks of the third stage is adapted
    sizes: list[int] = []
    for stage in model.stages:
        for block in stage.blocks:
            block.register_forward_hook(lambda _, args, out: sizes.append(len(out)))
    model(make_batch(images=3, dtype=torch.float32)["image"])
    assert sizes == [3, 3, 3, 3, 6, 6, 6]


@pytest.mark.parametrize("name", NAMES)
def test_permuted_tasks_have_permuted_outputs(name: str) -> None:
    model, image = make(name), make_batch(dtype=torch.float32)["image"]
    other = make(name, outputs=dict(reversed(CHANNELS.items())))
    parts = "decoders" if name == "vtagml" else "heads"
    with torch.no_grad():
        for path, parameter in other.named_parameters():
            first, index, *rest = [*path.split("."), "", ""]
            source = path if first != parts else ".".join([first, str(1 - int(index)), *rest]).rstrip(".")
            value = model.get_parameter(source)
            parameter.copy_(value.flip(0) if path == "embeddings" else value)
        expected, found = model(image), other(image)
    assert list(found) == ["depth", "seg"]
    for task in CHANNELS:
        torch.testing.assert_close(found[task], expected[task], rtol=1e-4, atol=1e-5)


def test_swinmtl_with_one_task_is_single_task_learning() -> None:
    torch.manual_seed(0)
    single = SingleTask(CHANNELS, partial(SwinMTL, encoder=swinv2_config(), width=8))
    image = make_batch(dtype=torch.float32)["image"]
    with torch.no_grad():
        found = single(image)
        for task, channels in CHANNELS.items():
            torch.manual_seed(0)
            assert torch.equal(SwinMTL({task: channels}, swinv2_config(), width=8)(image)[task], found[task])


def test_swinmtl_shares_everything_but_two_convolutions_per_task() -> None:
    model = make("swinmtl")
    image = make_batch(dtype=torch.float32)["image"]
    touched = []
    for task in CHANNELS:
        model.zero_grad()
        model(image)[task].square().sum().backward()
        touched.append({name for name, p in model.named_parameters() if p.grad is not None and p.grad.any()})
    shared = {name.split(".")[0] for name in touched[0] & touched[1]}
    assert shared == {"trunk", "decoder"}
    own = [{name.split(".", 2)[2] for name in names - (touched[0] & touched[1])} for names in touched]
    assert own == [{"0.weight", "0.bias", "2.weight", "2.bias"}] * 2


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_takes_part(name: str) -> None:
    model = make(name)
    model.double()
    torch.stack(list(task_losses(model, make_batch()).mean().values())).sum().backward()  # type: ignore[no-untyped-call]
    idle = [path for path, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert all("k_proj.bias" in path or "key.bias" in path for path in idle), idle


# Training


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_level_method_and_sims_train_it(name: str) -> None:
    batch, model = make_batch(images=1), make(name).double()
    start = {path: value.clone() for path, value in model.state_dict().items()}
    for method in [row["method"] for row in catalogue() if row["family"] != "gradient-level"]:
        model.load_state_dict(start)
        text = f"{method}:seg=1:depth=2" if method == "fixed" else method
        report = Method(text).build(model, CHANNELS, lr=1e-4, optimizer=SGD).step(task_losses, batch)
        assert set(report.losses) == set(CHANNELS)
        assert any(not torch.equal(value, start[path]) for path, value in model.state_dict().items()), method


@pytest.mark.parametrize("name", NAMES)
def test_micro_batches_and_activation_checkpointing_change_no_step(name: str) -> None:
    expected = run_steps(make(name), slice(None))
    assert run_steps(make(name), slice(0, 1), slice(1, 3)) == pytest.approx(expected, rel=1e-9)
    assert run_steps(make(name, checkpointing=True), slice(None)) == pytest.approx(expected, rel=1e-9)


def test_gradients_at_the_representation_need_a_shared_one() -> None:
    methods = partial(Aggregated, aggregation=MGDA(), outer=partial(SGD, lr=1e-3), shared="representation")
    with pytest.raises(ValueError, match=r"share one representation. Found `VTAGML`, which computes one per task."):
        methods(make("vtagml"), features="stem")
    report = methods(make("swinmtl").double(), features="decoder").step(task_losses, make_batch(images=1))
    assert sum(report.weights.values()) == pytest.approx(1.0, rel=1e-4)


# Names, files and bad input


def test_a_pretrained_folder_is_read(tmp_path: Path) -> None:
    torch.manual_seed(1)
    theirs = SwinModel(swin_config())
    theirs.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 1, 2]}')
    text = f"vtagml:encoder={tmp_path}/:adapted=1:adapters=no:dropout=0"
    architecture = Architecture.parse(text, ["hps", "swinmtl", "vtagml"])
    assert str(architecture) == text
    model: Any = architecture.build(CHANNELS, {})
    assert torch.equal(model.stem.embeddings.norm.weight, theirs.embeddings.norm.weight)
    assert model.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    swinmtl: Any = Architecture.parse(f"swinmtl:encoder={tmp_path}/", ["swinmtl"]).build(CHANNELS, {})
    image = torch.rand(1, 3, 64, 64)
    normed = (image - model.mean) / model.std
    torch.testing.assert_close(to_tokens(swinmtl.trunk(image)[-1]), theirs.eval()(normed).last_hidden_state)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vtagml:encoder=swin", r"There is no encoder `swin`. Did you mean `swin-s`\?"),
        ("vtagml:adapted=-1", "Parameter `adapted` should not be negative. Found `adapted = -1`."),
        ("vtagml:dropout=1", r"Parameter `dropout` should be in \[0, 1\). Found `dropout = 1.0`."),
        ("swinmtl:norm=layer", "Parameter `norm` should be one of auto, batch, group, frozen. Found `norm = 'layer'`."),
    ],
)
def test_bad_options_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Architecture.parse(text, NAMES)


def test_other_encoders_and_sizes_that_do_not_fit_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"should be a model of the type swin. Found `swinv2`"):
        VTAGML(CHANNELS, swinv2_config())
    with pytest.raises(ValueError, match=r"should be at most 2 with this encoder. Found `adapted = 3`."):
        VTAGML(CHANNELS, swin_config(), adapted=3)
    with pytest.raises(ValueError, match=r"Height and width of images should be multiples of 32. Found 64 x 100."):
        make("vtagml")(torch.rand(1, 3, 64, 100))
    for name in NAMES:
        with pytest.raises(ValueError, match=r"Images should have at least 64 x 64 pixels, .* Found 32 x 96."):
            make(name)(torch.rand(1, 3, 32, 96))
