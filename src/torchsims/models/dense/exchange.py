"""The exchange of features between the tasks of DenseMTL."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d, relu

from torchsims.models.dense.blocks import normed
from torchsims.models.dense.norms import make_norm

REDUCTION = 4  # how much coarser than the exchanged maps attention is


class Exchange(nn.Module):
    """What one task takes from the others.

    Args:
        channels: channels of the maps.
        sources: how many other tasks there are.
        norm: kind of the norms.
    """

    def __init__(self, channels: int, sources: int, norm: str) -> None:
        super().__init__()
        self.pairs = nn.ModuleList([Pair(channels, norm) for _ in range(sources)])
        self.fuse = nn.Sequential()
        if sources:
            self.fuse.extend([nn.Conv2d(sources * channels, channels, 1, bias=False), make_norm(norm, channels)])

    def forward(self, target: Tensor, sources: Sequence[Tensor]) -> Tensor:
        """Return the features of the target with what the sources add."""
        if not sources:
            return target
        found = [pair(target, source) for pair, source in zip(self.pairs, sources, strict=True)]
        return target + relu(self.fuse(torch.cat(found, dim=1)))


class Pair(nn.Module):
    """Features for one task from another one: its own gated ones, and those that attention finds.

    Args:
        channels: channels of the maps.
        norm: kind of the norms.
    """

    def __init__(self, channels: int, norm: str) -> None:
        super().__init__()
        self.source = nn.Conv2d(channels, channels, 3, padding=1)
        self.value_of_self, self.gate = (nn.Conv2d(channels, channels // 2, 3, padding=1, bias=False) for _ in range(2))
        self.query, self.key, self.value = (normed(channels, channels, norm) for _ in range(3))
        self.alpha = nn.Parameter(torch.zeros(channels, 1, 1))
        self.project = normed(channels // 2 + channels, channels, norm)

    def forward(self, target: Tensor, source: Tensor) -> Tensor:
        """Return features of the shape of the target."""
        features = relu(self.source(source))
        gated = self.value_of_self(features) * self.gate(features).sigmoid()
        pooled = max_pool2d(features, REDUCTION, ceil_mode=True)
        size = (pooled.shape[-2], pooled.shape[-1])
        query = self.query(interpolate(target, size=size)).flatten(2)
        key, value = self.key(pooled).flatten(2), self.value(pooled).flatten(2)
        attention = (query.transpose(1, 2) @ key / query.shape[1] ** 0.5).softmax(dim=-1)  # place x place
        crossed = (value @ attention.transpose(1, 2)).unflatten(2, size)
        crossed = self.alpha * interpolate(crossed, size=target.shape[-2:])
        out: Tensor = self.project(torch.cat([gated, crossed], dim=1))
        return out
