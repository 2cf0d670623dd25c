"""Staged encoders: what they compute, how far they look, and what bad input says."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from helpers.small_encoders import mobilenet_config, resnet_config, save_encoder
from torchsims.models import HPS, SingleTask
from torchsims.models.dense.encoders import Stage, make_encoder

transformers = pytest.importorskip("transformers")

OUTPUTS = {"seg": 13, "depth": 1, "normals": 3}
CONFIGS = {"resnet": resnet_config, "basic": lambda: resnet_config("basic"), "mobilenet": mobilenet_config}


def numbers(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("mean", [None, 0.25])
def test_a_pretrained_encoder_computes_what_transformers_does(kind: str, mean: float | None, tmp_path: Path) -> None:
    folder = save_encoder(tmp_path, CONFIGS[kind](), mean)
    encoder = make_encoder(folder, dilated=32).train()
    image = torch.rand(2, 3, 64, 96)
    colours = image.clone()
    for channel, (a, b) in enumerate(
        [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)] if mean is None else [(mean, 1), (0.5, 1), (0.5, 2)]
    ):
        colours[:, channel] = (image[:, channel] - a) / b
    twin = transformers.AutoModel.from_pretrained(tmp_path).eval()  # stored statistics
    expected = twin(colours, output_hidden_states=True).hidden_states
    if kind == "mobilenet":
        expected = [expected[index] for index in (1, 4, 11, 15)]
    for found, other in zip(encoder(image), expected[-4:], strict=True):
        torch.testing.assert_close(found, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("dilated", [8, 16])
def test_dilation_gives_the_same_values_on_a_finer_grid(kind: str, dilated: int) -> None:
    """Every place of the usual map is a place of the dilated one, with the same value where no border is seen."""
    torch.manual_seed(0)
    usual = make_encoder(CONFIGS[kind](), dilated=32, norm="frozen").double()
    fine = make_encoder(CONFIGS[kind](), dilated=dilated, norm="frozen").double()
    fine.load_state_dict(usual.state_dict())
    image = torch.rand(1, 3, 512, 512, dtype=torch.float64)
    with torch.no_grad():
        coarse, finer = usual(image)[-1], fine(image)[-1]
    assert [level.stride for level in fine.levels][-1] == dilated
    assert finer.shape[-1] == 512 // dilated
    middle = slice(7, 9)
    torch.testing.assert_close(
        finer[..., :: 32 // dilated, :: 32 // dilated][..., middle, middle], coarse[..., middle, middle]
    )


@pytest.mark.parametrize("encoder", ["small", "resnet", "basic", "mobilenet"])
def test_levels_are_what_the_stages_return(encoder: str) -> None:
    made = make_encoder(CONFIGS[encoder]() if encoder in CONFIGS else encoder)
    image = torch.rand(1, 3, 64, 128)
    stem = made.run_stem(image)
    assert (stem.shape[1], 64 // stem.shape[2]) == (made.stem_level.channels, made.stem_level.stride)
    for found, level in zip(made(image), made.levels, strict=True):
        assert tuple(found.shape) == (1, level.channels, 64 // level.stride, 128 // level.stride)
    stage = made.stages[1]
    assert isinstance(stage, Stage)
    features = made.stages[0](made.pool(stem))
    assert torch.equal(stage(stage(features, stop=-1), start=-1), stage(features))


@pytest.mark.parametrize("norm", ["group", "frozen"])
def test_an_image_does_not_depend_on_its_batch(norm: str) -> None:
    torch.manual_seed(0)
    model = HPS(OUTPUTS, encoder=mobilenet_config(), norm=norm, width=16).double()
    images = torch.rand(3, 3, 64, 64, dtype=torch.float64)
    together, alone = model(images), model(images[1:2])
    for task in OUTPUTS:
        torch.testing.assert_close(together[task][1:2], alone[task], rtol=0, atol=1e-10)
    assert not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


def test_norms_are_chosen_by_the_weights(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path, mobilenet_config())
    kinds = {
        name: {type(m).__name__ for m in make_encoder(encoder, norm=norm).modules() if "Norm" in type(m).__name__}
        for name, encoder, norm in (
            ("random", mobilenet_config(), "auto"),
            ("pretrained", folder, "auto"),
            ("batch", folder, "batch"),
        )
    }
    assert kinds == {"random": {"GroupNorm"}, "pretrained": {"FrozenBatchNorm"}, "batch": {"BatchNorm2d"}}
    batch = make_encoder(folder, norm="batch")
    assert {m.momentum for m in batch.modules() if isinstance(m, nn.BatchNorm2d)} == {0.1}


def test_frozen_stages_are_not_trained_and_shared_by_single_tasks(tmp_path: Path) -> None:
    folder = save_encoder(tmp_path, mobilenet_config())
    encoder = make_encoder(folder, norm="batch", frozen=2)
    frozen = {
        name.split(".")[1] if "stages" in name else "stem"
        for name, p in encoder.named_parameters()
        if not p.requires_grad
    }
    assert frozen == {"stem", "0", "1"}
    before = {name: value.clone() for name, value in encoder.stages[:2].state_dict().items()}
    encoder.train()(torch.rand(2, 3, 64, 64))
    assert all(torch.equal(before[name], value) for name, value in encoder.stages[:2].state_dict().items())
    single = SingleTask({"a": 1, "b": 1}, lambda own: HPS(own, encoder=folder, frozen=2, width=8))
    one, other = single.networks
    assert sum(a is b for a, b in zip(one.parameters(), other.parameters(), strict=True)) > 10


def test_checkpointing_changes_no_gradient() -> None:
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        model = HPS(OUTPUTS, encoder=mobilenet_config(), width=8, checkpointing=checkpointing)
        torch.manual_seed(1)
        sum(out.square().sum() for out in model(torch.rand(2, 3, 64, 64)).values()).backward()
        found.append([p.grad for p in model.parameters()])
    for a, b in zip(*found, strict=True):
        assert a is not None
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_numbers_of_parameters_are_those_of_the_field() -> None:
    with torch.device("meta"):
        model = HPS(OUTPUTS, encoder="resnet50")
        single = SingleTask(OUTPUTS, lambda own: HPS(own, encoder="resnet50"))
        sizes = {name: numbers(make_encoder(name)) for name in ("resnet18", "resnet34", "resnet101", "mobilenetv2")}
    assert numbers(model.trunk) == 23_508_032
    assert numbers(model.heads) == 48_380_689
    assert numbers(model) == 71_888_721
    assert numbers(single) == 118_904_785
    # The published numbers, without the classifiers; of MobileNetV2 also without the last 1 x 1 convolution.
    assert sizes["resnet18"] == 11_689_512 - 513_000
    assert sizes["resnet34"] == 21_797_672 - 513_000
    assert sizes["resnet101"] == 42_500_160
    assert sizes["mobilenetv2"] == 3_504_872 - 1_281_000 - 320 * 1280 - 2 * 1280


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "resnet5"}, "There is no encoder `resnet5`. Did you mean `resnet50`?"),
        ({"dilated": 4}, "Parameter `dilated` should be 8, 16, 32 or 0. Found `dilated = 4`."),
        ({"dilated": 8}, "Parameter `dilated` should not be given for encoder `small`. Found `dilated = 8`."),
        ({"norm": "layer"}, "Parameter `norm` should be one of auto, batch, group, frozen. Found `norm = 'layer'`."),
        ({"head": "fpn"}, "Parameter `head` should be one of auto, light, aspp. Found `head = 'fpn'`."),
        ({"frozen": 5}, "Parameter `frozen` should be from 0 to 4. Found `frozen = 5`."),
        ({"encoder": "./no/such/folder"}, "which is no folder."),
    ],
)
def test_bad_options_are_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        HPS(OUTPUTS, **options)
    assert message in str(caught.value)


def test_folders_that_hold_no_encoder_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which cannot be loaded"):
        make_encoder(f"{tmp_path}/")
    transformers.BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"should be a model of the type .*. Found `bert`."):
        make_encoder(f"{tmp_path}/")
    folder = save_encoder(tmp_path, mobilenet_config())
    (tmp_path / "model.safetensors").unlink()
    from safetensors.torch import save_file

    save_file({"other": torch.zeros(1)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"should hold every tensor of its stages. Found .* missing"):
        make_encoder(folder)


def test_a_small_image_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"at least 32 x 32 pixels for this encoder. Found 16 x 64."):
        HPS(OUTPUTS, encoder=mobilenet_config(), width=8)(torch.rand(1, 3, 16, 64))
