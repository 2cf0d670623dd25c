"""Blocks of small encoder-decoder networks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, relu

from torchsims.models.dense.norms import GROUP_CHANNELS, make_norm


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """Return a 3 x 3 convolution with GroupNorm, which normalises every image by itself, and a ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(outputs // GROUP_CHANNELS, outputs),
        nn.ReLU(),
    )


def normed(inputs: int, outputs: int, norm: str, kernel: int = 1, dilation: int = 1) -> nn.Sequential:
    """Return a convolution that keeps the size, a norm and a ReLU."""
    padding = dilation * (kernel // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=padding, dilation=dilation, bias=False),
        make_norm(norm, outputs),
        nn.ReLU(),
    )


def resize(features: Tensor, size: Sequence[int]) -> Tensor:
    """Return the features at another height and width."""
    return interpolate(features, size=tuple(size), mode="bilinear", align_corners=False)


class Residual(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = convolution(channels, channels)
        self.second = convolution(channels, channels)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of the same shape."""
        out: Tensor = features + self.second(self.first(features))
        return out


class Bottleneck(nn.Module):
    """A residual block of ResNet-50 that changes the number of channels.

    Args:
        inputs: channels of the input.
        outputs: channels of the result; a quarter of them inside.
        norm: kind of the norms.
    """

    def __init__(self, inputs: int, outputs: int, norm: str) -> None:
        super().__init__()
        hidden = outputs // 4
        self.layers = nn.Sequential(
            normed(inputs, hidden, norm),
            normed(hidden, hidden, norm, kernel=3),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            make_norm(norm, outputs),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), make_norm(norm, outputs))

    def forward(self, features: Tensor) -> Tensor:
        """Return `batch x outputs x height x width`."""
        return relu(self.layers(features) + self.shortcut(features))


class Trunk(nn.Module):
    """An encoder that halves the image four times, and a decoder that brings it back to half of its size.

    Args:
        width: channels at half of the size, doubled twice on the way down.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 4 * width]
        self.down = nn.ModuleList(
            nn.Sequential(convolution(inputs, outputs, stride=2), Residual(outputs))
            for inputs, outputs in zip([3, *widths[:-1]], widths, strict=True)
        )
        self.up = nn.ModuleList(
            convolution(deep + skip, skip) for deep, skip in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return features, `batch x width x height/2 x width/2`, for images `batch x 3 x height x width`."""
        levels = [image]
        for stage in self.down:
            levels.append(stage(levels[-1]))
        features = levels.pop()
        for stage in self.up:
            skip = levels.pop()
            features = stage(torch.cat([resize(features, skip.shape[-2:]), skip], dim=1))
        return features


class Head(nn.Module):
    """Turns features of the trunk into one prediction per pixel of the image."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.hidden = convolution(width, width)
        self.out = nn.Conv2d(width, channels, 1)

    def forward(self, features: Tensor, size: Sequence[int]) -> Tensor:
        """Return predictions, `batch x channels x size`."""
        return resize(self.out(self.hidden(features)), size)
