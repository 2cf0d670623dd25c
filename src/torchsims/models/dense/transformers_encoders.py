"""Encoders of transformers, cut into stages. This module imports transformers, and is imported when a model is made."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, MobileNetV2Config, ResNetConfig, SwinConfig, Swinv2Config
from transformers.image_processing_base import ImageProcessingMixin

from torchsims.models.dense.encoders import IMAGENET, Colours, Level, StagedEncoder
from torchsims.models.dense.swin import PatchStem, make_stages
from torchsims.models.sources import load_pretrained

CONFIGS: dict[str, Any] = {
    "resnet18": (ResNetConfig, {"layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]}),
    "resnet34": (ResNetConfig, {"layer_type": "basic", "depths": [3, 4, 6, 3], "hidden_sizes": [64, 128, 256, 512]}),
    "resnet50": (ResNetConfig, {}),
    "resnet101": (ResNetConfig, {"depths": [3, 4, 23, 3]}),
    "mobilenetv2": (MobileNetV2Config, {"tf_padding": False, "layer_norm_eps": 1e-5}),
    "swin-s": (SwinConfig, {"depths": [2, 2, 18, 2]}),
    "swinv2-b": (
        Swinv2Config,
        {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32], "window_size": 8, "image_size": 256},
    ),
}
"""Class of the configuration and its arguments, by name."""

MOBILENET_STAGES = ((0, 2), (2, 5), (5, 12), (12, 16))  # blocks of MobileNetV2 at strides 4, 8, 16 and 32
UNUSED = ("conv_1x1.", "classifier.", "pooler.")  # behind the last stage


def make(encoder: Any, dilated: int) -> tuple[StagedEncoder, bool]:
    """Return an encoder, and whether its weights are pretrained."""
    model, colours, pretrained = load_model(encoder, tuple(_CUTS))
    return _CUTS[model.config.model_type](model, dilated, colours), pretrained


def load_model(encoder: Any, kinds: Sequence[str]) -> tuple[Any, Colours, bool]:
    """Return a model of transformers, mean and standard deviation of its colours, and whether it is pretrained.

    Args:
        encoder: a name of :data:`CONFIGS` or a configuration, for random weights; or a folder or a hub id.
        kinds: types of models that will do.
    """
    pretrained = isinstance(encoder, str) and encoder not in CONFIGS
    if pretrained:
        config: Any = load_pretrained(encoder, "an encoder", AutoConfig.from_pretrained)
    elif isinstance(encoder, str):
        make_config, arguments = CONFIGS[encoder]
        config = make_config(**arguments)
    else:
        config = encoder
    if config.model_type not in kinds:
        name = encoder if isinstance(encoder, str) else type(config).__name__
        raise ValueError(
            f"Encoder `{name}` should be a model of the type {' or '.join(kinds)}. Found `{config.model_type}`."
        )
    if not pretrained:
        return AutoModel.from_config(config), IMAGENET, False
    if torch.get_default_device().type == "meta":  # shapes only: no file is read
        return AutoModel.from_config(config), _colours(encoder), True
    return _read(encoder), _colours(encoder), True


def _read(name: str) -> Any:
    """Return a pretrained model; raise if one of its tensors is missing."""

    def load(name: str) -> Any:
        return AutoModel.from_pretrained(name, output_loading_info=True, dtype=torch.float32)

    model, info = load_pretrained(name, "an encoder", load)
    missing = sorted(key for key in info["missing_keys"] if not key.startswith(UNUSED))
    if missing:
        raise ValueError(
            f"Encoder `{name}` should hold every tensor of its stages. Found {len(missing)} missing: {missing[0]}, ..."
        )
    return model


def _colours(name: str) -> Colours:
    """Return mean and standard deviation of the colours, as stored with the encoder; those of ImageNet otherwise."""
    try:
        found, _ = ImageProcessingMixin.get_image_processor_dict(name)
    except OSError:  # none is stored
        return IMAGENET
    return found.get("image_mean", IMAGENET[0]), found.get("image_std", IMAGENET[1])


def _resnet(model: Any, dilated: int, colours: Colours) -> StagedEncoder:
    sizes = model.config.hidden_sizes
    levels = [Level(channels, min(4 * 2**index, dilated or 8)) for index, channels in enumerate(sizes)]
    stages = [list(stage.layers) for stage in model.encoder.stages]
    _dilate(stages, levels)
    stem = Level(model.config.embedding_size, 2)
    return StagedEncoder(model.embedder.embedder, model.embedder.pooler, stages, stem, levels, colours)


def _mobilenet(model: Any, dilated: int, colours: Colours) -> StagedEncoder:
    stages = [list(model.layer[start:stop]) for start, stop in MOBILENET_STAGES]
    channels = [blocks[-1].reduce_1x1.convolution.out_channels for blocks in stages]
    inner = [blocks[-2].reduce_1x1.convolution.out_channels for blocks in stages]
    levels = [
        Level(number, min(4 * 2**index, dilated or 32), before)
        for index, (number, before) in enumerate(zip(channels, inner, strict=True))
    ]
    _dilate(stages, levels)
    stem = Level(model.conv_stem.reduce_1x1.convolution.out_channels, 2)
    return StagedEncoder(model.conv_stem, nn.Identity(), stages, stem, levels, colours)


def _swin(model: Any, dilated: int, colours: Colours) -> StagedEncoder:
    if dilated not in (0, 32):
        raise ValueError(f"Parameter `dilated` should not be given for Swin encoders. Found `dilated = {dilated}`.")
    stages = make_stages(model)
    size, patch = model.config.embed_dim, model.config.patch_size
    levels = [Level(size * 2**index, patch * 2**index) for index in range(len(stages))]
    return StagedEncoder(PatchStem(model), nn.Identity(), stages, levels[0], levels, colours)


_CUTS = {"resnet": _resnet, "mobilenet_v2": _mobilenet, "swin": _swin, "swinv2": _swin}
"""How a model of a type becomes stages."""


def _dilate(stages: list[list[nn.Module]], levels: Sequence[Level]) -> None:
    """Replace strides that would make a map smaller than its level by dilation, so that no weight changes its place.

    The convolution that had a stride of 2 keeps the dilation of the stage before.
    """
    dilation = 1
    for index, blocks in enumerate(stages[1:], start=1):
        before, dilation = dilation, 2 * dilation if levels[index].stride == levels[index - 1].stride else dilation
        if dilation == before:
            continue
        for convolution in (m for block in blocks for m in block.modules() if isinstance(m, nn.Conv2d)):
            strided, convolution.stride = convolution.stride[0] > 1, (1, 1)
            if convolution.kernel_size[0] > 1:
                size = before if strided else dilation
                convolution.dilation = (size, size)
                if convolution.padding != (0, 0):  # transformers pads by itself, like TensorFlow, where it is zero
                    convolution.padding = (size, size)
