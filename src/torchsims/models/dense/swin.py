"""Swin transformers of transformers on feature maps, block by block."""

from collections.abc import Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

WEIGHT_STD = 0.02  # of new linear layers
M = TypeVar("M", bound=nn.Module)


def to_tokens(features: Tensor) -> Tensor:
    """Return `batch x height width x channels` for `batch x channels x height x width`."""
    return features.flatten(2).transpose(1, 2)


def to_map(tokens: Tensor, size: Sequence[int]) -> Tensor:
    """Return `batch x channels x height x width` for `batch x height width x channels`."""
    return tokens.transpose(1, 2).view(len(tokens), -1, *size)


class PatchStem(nn.Module):
    """Makes the first feature map of an image; an image whose last map would be smaller than a window is an error.

    Args:
        model: a ``SwinModel`` or ``Swinv2Model``.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.embeddings = model.embeddings
        layers = model.encoder.layers
        self.window: int = layers[-1].blocks[0].window_size
        self.stride = model.config.patch_size * 2 ** (len(layers) - 1)

    def forward(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        if min(height, width) < (smallest := self.window * self.stride):
            raise ValueError(
                f"Images should have at least {smallest} x {smallest} pixels, so that the last map of the encoder "
                f"holds a window of {self.window} x {self.window}. Found {height} x {width}."
            )
        return to_map(*self.embeddings(image))


class PatchMerging(nn.Module):
    """Halves a feature map and doubles its channels.

    Args:
        merging: a ``SwinPatchMerging`` or ``Swinv2PatchMerging``.
    """

    def __init__(self, merging: nn.Module) -> None:
        super().__init__()
        self.merging = merging

    def forward(self, features: Tensor) -> Tensor:
        height, width = features.shape[-2:]
        return to_map(self.merging(to_tokens(features), (height, width)), ((height + 1) // 2, (width + 1) // 2))


class SwinBlock(nn.Module):
    """Attention in windows, and a perceptron.

    Args:
        layer: a ``SwinLayer`` or ``Swinv2Layer``.
        norm: norm of the output.
    """

    def __init__(self, layer: Any, norm: nn.Module | None = None) -> None:
        super().__init__()
        self.layer, self.norm, self._shift = layer, norm or nn.Identity(), layer.shift_size

    def forward(self, features: Tensor, **context: Tensor) -> Tensor:
        """Return features of the same shape; ``context`` is handed to the attention."""
        size = tuple(features.shape[-2:])
        self.layer.shift_size = self._shift  # a SwinLayer does not shift any more after an image of one window
        return to_map(self.norm(self.layer(to_tokens(features), size, **context)[0]), size)


def make_stages(model: Any) -> list[list[nn.Module]]:
    """Return the blocks of every stage of a ``SwinModel`` or ``Swinv2Model``.

    All stages but the first begin with a merging, and the last block of all ends with the norm of the model.
    """
    stages: list[list[nn.Module]] = []
    for index, layer in enumerate(model.encoder.layers):
        before = [] if index == 0 else [PatchMerging(model.encoder.layers[index - 1].downsample)]
        *blocks, last = layer.blocks
        norm = model.layernorm if layer is model.encoder.layers[-1] else None
        stages.append([*before, *map(SwinBlock, blocks), SwinBlock(last, norm)])
    return stages


def initialize(module: M) -> M:
    """Return the module with new weights, as Swin transformers draw them."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.trunc_normal_(part.weight, std=WEIGHT_STD)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.LayerNorm):
            part.reset_parameters()
    return module
