"""Which parameters the tasks share, and the per-task gradients by them, one block of rows per parameter."""

from collections.abc import Sequence
from typing import Any, Protocol, final

import torch
from torch import Tensor

from torchsims.steppers._distributed import Ranks

__all__ = ["Found", "Heads", "Rows", "Sharing", "heads_of", "stacked", "unstacked"]

Found = list[dict[int, Tensor]]
"""The gradients of the tasks' totals: by parameter, then by task, where the task's graph reaches the parameter."""

Heads = dict[tuple[int, int], Tensor]
"""The gradients of what is not shared, by parameter and task."""


@final
class Sharing:
    """Which parameters are shared: those that the losses of two tasks depend on, or those that the user names.

    Once shared, always shared: a batch in which all but one task lack labels changes nothing.

    Args:
        names: the names of all trainable parameters.
        given: the names of the shared ones or of modules that hold them; ``None`` to find them.

    Attributes:
        shared: the names of the parameters found so far.
    """

    def __init__(self, names: Sequence[str], given: Sequence[str] | None) -> None:
        self._names = list(names)
        self._given = given is not None
        self.shared: set[str] = set()
        for prefix in given or ():
            matching = {name for name in names if name == prefix or name.startswith(f"{prefix}.")}
            if not matching:
                raise ValueError(
                    "Parameter `shared` should name modules or parameters that are trained. "
                    f"Found `{prefix}`, which names none."
                )
            self.shared |= matching

    def update(self, found: Found, tasks: int, ranks: Ranks) -> list[list[int]]:
        """Return the tasks that reach each parameter on any rank, and remember which parameters are shared."""
        reach = [[float(task in each) for task in range(tasks)] for each in found]
        if ranks.size > 1:  # else the host knows
            reach = ranks.sum(torch.tensor(reach, device=ranks.device)).tolist()
        reached = [[task for task, n in enumerate(row) if n] for row in reach]
        if not self._given:
            self.shared |= {name for name, by in zip(self._names, reached, strict=True) if len(by) > 1}
        return reached

    def indices(self) -> list[int]:
        """Return where the shared parameters stand."""
        return [index for index, name in enumerate(self._names) if name in self.shared]


class Rows(Protocol):
    """The gradients of the tasks by what they share, as blocks of columns, and by what they do not."""

    total: Tensor
    count: Tensor
    aux: Any
    found: Found
    blocks: list[Tensor]

    def select(self, tasks: list[int], shared: list[int]) -> None:
        """Form the blocks, `k x n`, of the tasks with labels, given which parameters are shared."""

    def gramian(self) -> Tensor:
        """Return the inner products of the rows, over all ranks, `k x k`."""

    def gradients(self, direction: Sequence[Tensor]) -> dict[int, Tensor]:
        """Return the gradients of the shared parameters for a direction, given block by block."""


def heads_of(
    rows: Rows, theta: Sequence[Tensor], shared: Sequence[int], reached: Sequence[Sequence[int]], tasks: Sequence[int]
) -> Heads:
    """Return the gradients of what is not shared; zeros where another rank alone has one."""
    return {
        (index, task): rows.found[index][task].clone() if task in rows.found[index] else torch.zeros_like(p)
        for index, p in enumerate(theta)
        if index not in shared
        for task in reached[index]
        if task in tasks
    }


def stacked(found: dict[int, Tensor], like: Tensor, tasks: list[int]) -> Tensor:
    """Return the gradients of some tasks, `k x n`; half precision becomes single, for the inner products.

    A complex gradient becomes its real and imaginary parts, `k x 2n`: the gradients by those of the parameter. What was
    found is let go, so that no more than a block is held twice.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    if not found.keys() >= set(tasks):
        missing = torch.zeros((), dtype=dtype, device=like.device).expand_as(like)
        found.update({task: missing for task in tasks if task not in found})
    block = torch.stack([found[task].to(dtype) for task in tasks]).flatten(1)
    found.clear()
    return torch.view_as_real(block).flatten(1) if block.is_complex() else block


def unstacked(row: Tensor, like: Tensor) -> Tensor:
    """Return a row of a block in the shape and with the dtype of what it belongs to."""
    row = torch.view_as_complex(row.view(-1, 2)) if like.is_complex() else row
    return row.view_as(like).to(like.dtype)
