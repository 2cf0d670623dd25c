"""Heads that turn the stages of an encoder into one prediction per pixel."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from torchsims.models.dense.blocks import normed, resize

HEADS = ("light", "aspp")
WIDTHS = {"light": 64, "aspp": 256}
"""Channels inside a head, by its name."""

RATES = (12, 24, 36)  # of the dilated convolutions of ASPP


@final
class LightHead(nn.Module):
    """A small feature pyramid, for small images: every stage counts, the coarse ones for what the fine ones miss.

    Args:
        inputs: channels of the stages, finest first.
        outputs: channels of the prediction.
        width: channels inside.
        norm: kind of the norms.
    """

    def __init__(self, inputs: Sequence[int], outputs: int, width: int, norm: str) -> None:
        super().__init__()
        self.sides = nn.ModuleList([nn.Conv2d(channels, width, 1) for channels in inputs])
        self.merges = nn.ModuleList([normed(width, width, norm, kernel=3) for _ in inputs])
        self.out = nn.Conv2d(width, outputs, 1)

    def forward(self, stages: Sequence[Tensor], size: Sequence[int]) -> Tensor:
        """Return predictions, `batch x outputs x size`."""
        features: Tensor | None = None
        for stage, side, merge in reversed(list(zip(stages, self.sides, self.merges, strict=True))):
            here = side(stage)
            features = merge(here if features is None else here + resize(features, here.shape[-2:]))
        return resize(self.out(features), size)


class ASPP(nn.Module):
    """Atrous spatial pyramid pooling: dilated convolutions and the mean of the map, side by side.

    Args:
        inputs: channels of the map.
        width: channels of every branch, and of the result.
        norm: kind of the norms.
        rates: dilations of the 3 x 3 convolutions.
    """

    def __init__(self, inputs: int, width: int, norm: str, rates: Sequence[int]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [normed(inputs, width, norm), *(normed(inputs, width, norm, 3, rate) for rate in rates)]
        )
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), *normed(inputs, width, norm))
        self.project = normed((2 + len(rates)) * width, width, norm)

    def forward(self, features: Tensor) -> Tensor:
        """Return `batch x width x height x width`."""
        found = [branch(features) for branch in self.branches]
        found.append(self.pooled(features).expand_as(found[0]))
        out: Tensor = self.project(torch.cat(found, dim=1))
        return out


@final
class ASPPHead(nn.Module):
    """ASPP on the last stage: the usual head of a dilated ResNet.

    Args:
        inputs: channels of the stages, finest first.
        outputs: channels of the prediction.
        width: channels inside.
        norm: kind of the norms.
    """

    def __init__(self, inputs: Sequence[int], outputs: int, width: int, norm: str) -> None:
        super().__init__()
        self.aspp = ASPP(inputs[-1], width, norm, RATES)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Sequential(*normed(width, width, norm, kernel=3), nn.Conv2d(width, outputs, 1))

    def forward(self, stages: Sequence[Tensor], size: Sequence[int]) -> Tensor:
        """Return predictions, `batch x outputs x size`."""
        return resize(self.out(self.dropout(self.aspp(stages[-1]))), size)


def make_head(head: str, inputs: Sequence[int], outputs: int, width: int, norm: str) -> LightHead | ASPPHead:
    """Return a new head; see :class:`LightHead` for the arguments."""
    made = ASPPHead if head == "aspp" else LightHead
    return made(inputs, outputs, width, norm)
