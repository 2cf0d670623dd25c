from collections.abc import Mapping
from typing import final

from torch import Tensor, nn

from torchsims.models._blocks import CHANNELS_A_GROUP, Head, Trunk


@final
class HPS(nn.Module):
    """Hard parameter sharing: one encoder-decoder for all tasks, and one small head a task.

    The usual head of NYUv2 sits on a dilated ResNet-50; this network is small enough for two cores. GroupNorm stands
    where batch statistics would let the images of a batch, and the ranks, see each other.

    Args:
        channels: how many channels the prediction of every task has, by name.
        width: channels of the widest features, a multiple of 8.

    Example:
        >>> import torch
        >>> from torchsims.models import HPS
        >>> model = HPS({"seg": 8, "depth": 1, "normals": 3})
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64), 'normals': (2, 3, 48, 64)}
    """

    def __init__(self, channels: Mapping[str, int], width: int = 16) -> None:
        super().__init__()
        _check(channels, width)
        self.trunk = Trunk(width)
        self.heads = nn.ModuleDict({task: Head(width, number) for task, number in channels.items()})

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return a prediction a task, `batch x channels x height x width`, of images, `batch x 3 x height x width`."""
        features = self.trunk(image)
        return {task: head(features, image.shape[-2:]) for task, head in self.heads.items()}


@final
class STL(nn.Module):
    """Single-task learning: a whole network a task, none of whose parameters another task sees.

    Args:
        channels: how many channels the prediction of every task has, by name.
        width: channels of the widest features of each network, a multiple of 8.

    Example:
        >>> import torch
        >>> from torchsims.models import HPS, STL
        >>> single, shared = STL({"seg": 8, "depth": 1}), HPS({"seg": 8, "depth": 1})
        >>> {task: tuple(out.shape) for task, out in single(torch.rand(2, 3, 64, 64)).items()}
        {'seg': (2, 8, 64, 64), 'depth': (2, 1, 64, 64)}
        >>> round(sum(p.numel() for p in single.parameters()) / sum(p.numel() for p in shared.parameters()), 1)
        2.0
    """

    def __init__(self, channels: Mapping[str, int], width: int = 16) -> None:
        super().__init__()
        _check(channels, width)
        self.networks = nn.ModuleDict({task: HPS({task: number}, width) for task, number in channels.items()})

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return a prediction a task, `batch x channels x height x width`, of images, `batch x 3 x height x width`."""
        return {task: network(image)[task] for task, network in self.networks.items()}


def check_channels(channels: Mapping[str, int]) -> None:
    """Raise if there is no task, or a task without a channel."""
    if not channels:
        raise ValueError("Parameter `channels` should name at least one task. Found none.")
    for task, number in channels.items():
        if not number >= 1:
            raise ValueError(f"The channels of task `{task}` should be positive. Found {number}.")


def _check(channels: Mapping[str, int], width: int) -> None:
    check_channels(channels)
    if not width >= 1 or width % CHANNELS_A_GROUP:
        raise ValueError(f"Parameter `width` should be a multiple of {CHANNELS_A_GROUP}. Found `width = {width}`.")
