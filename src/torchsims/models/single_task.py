"""Single-task learning with any network."""

from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import Tensor, nn

from torchsims.models.outputs import check_outputs, make_per_task


@final
class SingleTask(nn.Module):
    """Single-task learning: one network per task, and no task sees what another one trains.

    Every network starts from the same random state. Frozen parameters that are equal in all networks, such as those of
    a pretrained encoder, are in memory once.

    Args:
        outputs: outputs of the network, by task.
        make: makes the network of one task from its part of ``outputs``.

    Example:
        >>> from torchsims.models import HPS
        >>> model = SingleTask({"seg": 8, "depth": 1}, HPS)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 64, 64)).items()}
        {'seg': (2, 8, 64, 64), 'depth': (2, 1, 64, 64)}
    """

    def __init__(self, outputs: Mapping[str, int], make: Callable[[Mapping[str, int]], nn.Module]) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        frozen: dict[str, nn.Parameter] = {}

        def make_one(task: str, number: int) -> nn.Module:
            network = make({task: number})
            _share_frozen(network, frozen)
            return network

        self.networks = nn.ModuleList(make_per_task(outputs, make_one))

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Return the prediction of every task."""
        return {task: network(*inputs)[task] for task, network in zip(self.tasks, self.networks, strict=True)}


def _share_frozen(network: nn.Module, known: dict[str, nn.Parameter]) -> None:
    """Replace frozen parameters by the equal ones of the same name in ``known``; remember the others there."""
    for place, module in network.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                first = known.setdefault(f"{place}.{name}", parameter)
                if not parameter.is_meta and torch.equal(first, parameter):
                    setattr(module, name, first)
