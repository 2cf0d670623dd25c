from collections.abc import Callable, Mapping
from typing import final

from torch import Tensor, nn

from torchsims.models._features import check_outputs


@final
class Singly(nn.Module):
    """Single-task learning on tables: a whole network a task, embeddings included, none of which another task sees.

    Args:
        outputs: how many outputs every task has, by name.
        network: makes the network of one task from its part of ``outputs``.

    Example:
        >>> import torch
        >>> from torchsims.models import MLP, Singly
        >>> single = Singly({"price": 1, "kind": 3}, lambda outputs: MLP(outputs, numbers=2))
        >>> out = single(torch.randn(4, 2), torch.zeros(4, 0, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'price': (4, 1), 'kind': (4, 3)}
    """

    def __init__(self, outputs: Mapping[str, int], network: Callable[[Mapping[str, int]], nn.Module]) -> None:
        super().__init__()
        check_outputs(outputs)
        self.networks = nn.ModuleList([network({task: number}) for task, number in outputs.items()])
        self._tasks = tuple(outputs)  # names of columns may hold what names of modules may not

    def forward(self, numbers: Tensor, codes: Tensor) -> dict[str, Tensor]:
        """Return the outputs of every task, `row x output`."""
        return {task: part(numbers, codes)[task] for task, part in zip(self._tasks, self.networks, strict=True)}
