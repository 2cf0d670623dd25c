import copy
from collections.abc import Mapping
from os import PathLike
from typing import Any, final

from torch import Tensor, nn

from torchsims.models._sam2 import SAM2MTL


@final
class SAM2STL(nn.Module):
    """Single-task learning with the paper's model: a :class:`SAM2MTL` a task, with a LoRA of its own.

    No task sees what another one trains. The frozen encoder is in memory once; it runs once a task, because each has
    adapters of its own. All networks start where the shared one would.

    Args:
        channels: how many channels the prediction of every task has, by name.
        encoder: a folder or hub id of a full Sam2 checkpoint; or a ``transformers.Sam2Config``, for random weights.
        rank: the rank of the adapters.
        scaling: what multiplies them.
        dropout: the share of an adapter's inputs that training drops.
        size: height and width at which the trunk sees an image, multiples of 32; a number means both.
        checkpointing: whether blocks of the trunk compute their activations again instead of keeping them.
        norms: whether the LayerNorms of the trunk are trained as well.

    Example:
        >>> import torch
        >>> from torchsims.models import SAM2STL, sam2_config
        >>> model = SAM2STL({"seg": 13, "depth": 1}, sam2_config("toy"), rank=4, size=64)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 13, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    def __init__(
        self,
        channels: Mapping[str, int],
        encoder: str | PathLike[str] | Any = "facebook/sam2.1-hiera-large",
        rank: int = 32,
        scaling: float = 0.5,
        dropout: float = 0.1,
        size: int | tuple[int, int] = 1024,
        checkpointing: bool = False,
        norms: bool = False,
    ) -> None:
        super().__init__()
        shared = SAM2MTL(channels, encoder, rank, scaling, dropout, size, checkpointing, norms)
        self.networks = nn.ModuleDict({task: _alone(shared, task) for task in channels})

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return a prediction a task, `batch x channels x height x width`, of images, `batch x 3 x height x width`."""
        return {task: network(image)[task] for task, network in self.networks.items()}


def _alone(shared: SAM2MTL, task: str) -> SAM2MTL:
    """Return a copy with one task, whose frozen parameters are those of the original and not copies."""
    frozen: dict[int, Any] = {id(p): p for p in shared.parameters() if not p.requires_grad}
    network = copy.deepcopy(shared, frozen)
    network.heads = nn.ModuleDict({task: network.heads[task]})
    return network
