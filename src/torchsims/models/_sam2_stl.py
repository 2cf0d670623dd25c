import copy
from typing import Any, final

from torch import Tensor, nn

from torchsims.models._sam2 import SAM2MTL


@final
class SAM2STL(nn.Module):
    """Single-task learning with the paper's model: a :class:`SAM2MTL` a task, with a LoRA of its own.

    No task sees what another one trains. The frozen encoder is in memory once; it runs once a task, because each has
    adapters of its own. All networks start where the shared one would.

    Args:
        shared: the network of all tasks that those of each begin as.

    Example:
        >>> import torch
        >>> from torchsims.models import SAM2MTL, SAM2STL, sam2_config
        >>> model = SAM2STL(SAM2MTL({"seg": 13, "depth": 1}, sam2_config("toy"), rank=4, size=64))
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 13, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    def __init__(self, shared: SAM2MTL) -> None:
        super().__init__()
        self.networks = nn.ModuleDict({task: _alone(shared, task) for task in shared.heads})

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return a prediction a task, `batch x channels x height x width`, of images, `batch x 3 x height x width`."""
        return {task: network(image)[task] for task, network in self.networks.items()}


def _alone(shared: SAM2MTL, task: str) -> SAM2MTL:
    """Return a copy with one task, whose frozen parameters are those of the original and not copies."""
    frozen: dict[int, Any] = {id(p): p for p in shared.parameters() if not p.requires_grad}
    network = copy.deepcopy(shared, frozen)
    network.heads = nn.ModuleDict({task: network.heads[task]})
    return network
