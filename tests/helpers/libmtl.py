"""LibMTL's encoders and architectures beside ours, with the same weights.

LibMTL imports torchvision, which is not installed: its package is registered without running its ``__init__``, and the
one name that it needs is put in its place. This happens in a process of its own, ``python -m helpers.libmtl``, which
prints the largest differences.
"""

import importlib.util
import json
import sys
import types
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import ResNetConfig

from torchsims.models import MTAN, CrossStitch
from torchsims.models.dense.encoders import make_encoder

TASKS = ("seg", "depth", "normals")
OUTPUTS = {"seg": 13, "depth": 1, "normals": 3}
DEPTHS = [2, 2, 2, 2]  # blocks per stage
STAGES = range(4)


def import_libmtl() -> tuple[Any, Any]:
    """Return LibMTL's modules of networks and of architectures."""
    found = importlib.util.find_spec("LibMTL")
    assert found is not None
    package = types.ModuleType("LibMTL")
    package.__path__ = list(found.submodule_search_locations or [])
    stub = types.ModuleType("torchvision.models.utils")
    stub.load_state_dict_from_url = None  # type: ignore[attr-defined]
    names = {
        "torchvision": types.ModuleType("torchvision"),
        "torchvision.models": types.ModuleType("torchvision.models"),
    }
    sys.modules |= {"LibMTL": package, **names, "torchvision.models.utils": stub}
    model, architecture = (importlib.import_module(f"LibMTL.{name}") for name in ("model", "architecture"))
    for name in (*names, "torchvision.models.utils"):
        del sys.modules[name]
    return model, architecture


def config(layer_type: str) -> ResNetConfig:
    sizes = [256, 512, 1024, 2048] if layer_type == "bottleneck" else [64, 128, 256, 512]
    return ResNetConfig(depths=DEPTHS, hidden_sizes=sizes, layer_type=layer_type)


def make_resnet(resnet: Any, layer_type: str) -> nn.Module:
    """Return a ResNet of LibMTL with statistics of its own."""
    block = resnet.Bottleneck if layer_type == "bottleneck" else resnet.BasicBlock
    return stir(resnet.ResNet(block, DEPTHS))


def stir(module: nn.Module) -> nn.Module:
    for norm in (m for m in module.modules() if isinstance(m, nn.BatchNorm2d)):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        nn.init.uniform_(norm.running_mean, -0.1, 0.1)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
        nn.init.uniform_(norm.weight, 0.8, 1.2)
        nn.init.uniform_(norm.bias, -0.2, 0.2)
    return module


def block_state(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of a residual block with the names of transformers."""
    names = {"downsample.0": "shortcut.convolution", "downsample.1": "shortcut.normalization"}
    for number in (1, 2, 3):
        names |= {
            f"conv{number}": f"layer.{number - 1}.convolution",
            f"bn{number}": f"layer.{number - 1}.normalization",
        }
    found = {}
    for name, value in state.items():
        part, _, kind = name.rpartition(".")
        found[f"{prefix}.{names[part]}.{kind}"] = value
    return found


def encoder_state(resnet: Any) -> dict[str, Tensor]:
    """Return the state of a ResNet of LibMTL with the names of a staged encoder."""
    found = {f"stem.convolution.{k}": v for k, v in resnet.conv1.state_dict().items()}
    found |= {f"stem.normalization.{k}": v for k, v in resnet.bn1.state_dict().items()}
    for stage in STAGES:
        for number, block in enumerate(getattr(resnet, f"layer{stage + 1}")):
            found |= block_state(f"stages.{stage}.{number}", block.state_dict())
    return found


class Last(nn.Module):
    """Stands for a head, and returns the last stage."""

    def forward(self, stages: list[Tensor], size: object) -> Tensor:
        return stages[-1]


def make_mtan(model: Any, architecture: Any) -> tuple[nn.Module, MTAN]:
    """Return the encoder of LibMTL's MTAN and ours with its weights, without heads."""
    resnet = model.resnet_dilated.__globals__["ResnetDilated"](make_resnet(model.resnet, "bottleneck"), 8)
    ours = MTAN(OUTPUTS, encoder=config("bottleneck"), norm="batch")
    ours.encoder.load_state_dict(encoder_state(resnet))
    theirs = stir(architecture.MTAN.__init__.__globals__["_transform_resnet_MTAN"](resnet, list(TASKS), "cpu"))
    ours.encoder.load_state_dict(encoder_state(resnet))
    for stage in STAGES:
        for task in range(len(TASKS)):
            ours.attentions[task][stage].load_state_dict(theirs.encoder_att[str(stage)][task].state_dict())  # type: ignore[index, union-attr]
    names = {"downsample.": "shortcut.", "conv1.": "layers.0.0.", "bn1.": "layers.0.1.", "conv2.": "layers.1.0."}
    names |= {"bn2.": "layers.1.1.", "conv3.": "layers.2.", "bn3.": "layers.3."}
    for refinement, block in zip(ours.refinements, theirs.encoder_block_att, strict=True):  # type: ignore[arg-type]
        state = {}
        for name, value in block.state_dict().items():
            part = next(part for part in names if name.startswith(part))
            state[names[part] + name.removeprefix(part)] = value
        refinement[0].load_state_dict(state)  # type: ignore[index]
    ours.heads = nn.ModuleList([Last() for _ in TASKS])
    return theirs, ours


def make_cross_stitch(model: Any, architecture: Any) -> tuple[nn.Module, CrossStitch]:
    """Return the encoder of LibMTL's Cross-Stitch and ours with its weights, without heads.

    LibMTL's has one mix for all tasks, after three of the stages.
    """
    resnets = [make_resnet(model.resnet, "basic") for _ in TASKS]
    ours = CrossStitch(OUTPUTS, encoder=config("basic"), norm="batch", dilated=32)
    for encoder, resnet in zip(ours.encoders, resnets, strict=True):
        encoder.load_state_dict(encoder_state(resnet))
    theirs = architecture.Cross_stitch.__init__.__globals__["_transform_resnet_cross"](resnets, list(TASKS), "cpu")
    with torch.no_grad():
        theirs.cross_unit.uniform_(0.1, 0.5)
        for stage in STAGES:
            mix = theirs.cross_unit[stage].expand(len(TASKS), -1) if stage < 3 else torch.eye(len(TASKS))
            ours.mixes[stage].copy_(mix)
    ours.heads = nn.ModuleList([Last() for _ in TASKS])
    return theirs, ours


def difference(theirs: nn.Module, ours: nn.Module, image: Tensor, encoder: Any) -> float:
    """Return the largest difference of the features of the tasks, relative to the largest feature."""
    found, expected = ours(image), theirs((image - encoder.mean) / encoder.std)
    pairs = list(zip(found.values() if isinstance(found, dict) else [found[-1]], expected, strict=True))
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)


@torch.no_grad()
def main() -> None:
    model, architecture = import_libmtl()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    image, found = torch.rand(2, 3, 64, 96), {}
    pairs: dict[str, Any] = {"mtan": make_mtan, "crossstitch": make_cross_stitch}
    for name, make in pairs.items():
        theirs, ours = make(model, architecture)
        encoder = ours.encoder if name == "mtan" else ours.encoders[0]
        for training in (False, True):
            found[f"{name}, training={training}"] = difference(
                theirs.train(training), ours.train(training), image, encoder
            )
    for dilated in (8, 16):
        resnet = make_resnet(model.resnet, "bottleneck")
        twin = model.resnet_dilated.__globals__["ResnetDilated"](resnet, dilated).eval()
        encoder = make_encoder(config("bottleneck"), dilated=dilated, norm="frozen")
        encoder.load_state_dict({k: v for k, v in encoder_state(twin).items() if "num_batches" not in k})
        expected = twin((image - encoder.mean) / encoder.std)
        found[f"resnet, stride {dilated}"] = float((encoder(image)[-1] - expected).abs().max())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
