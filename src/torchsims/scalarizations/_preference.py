"""How much the tasks matter, for methods that take a preference."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeAlias, final

import torch
from torch import Tensor

Preferences: TypeAlias = Mapping[str, float | Tensor]
"""Positive numbers by task, 1 for tasks that are not named; a tensor has one per leading dimension of the losses."""


@final
class Preference:
    """Positive numbers by task; 1 for the tasks that are not named.

    Args:
        values: the numbers by name.
        tasks: the names of all tasks, in the order of stacked losses; the sorted names of ``values`` by default.
    """

    def __init__(self, values: Preferences, tasks: Sequence[str] | None) -> None:
        for task, value in values.items():
            numeric = isinstance(value, int | float | Tensor)
            if not numeric or not (torch.as_tensor(value > 0) & torch.as_tensor(value < inf)).all():
                raise ValueError(
                    f"Parameter `preference` should be positive and finite. Found {value!r} for task `{task}`."
                )
        self.tasks = tuple(sorted(values) if tasks is None else tasks)
        if not self.tasks:
            raise ValueError("Parameter `preference` should name a task, unless `tasks` does. Found neither.")
        if unknown := sorted(set(values) - set(self.tasks)):
            raise ValueError(
                f"Parameter `preference` should name tasks among {list(self.tasks)}. Found `preference` for {unknown}."
            )
        found = [values.get(task, 1.0) for task in self.tasks]
        self.values = tuple(value if isinstance(value, Tensor) else float(value) for value in found)

    def like(self, losses: Tensor) -> Tensor:
        """Return the numbers, `m` or `... x m`, in the dtype and on the device of ``losses``."""
        if any(isinstance(value, Tensor) for value in self.values):
            rows = [torch.as_tensor(value).to(losses).expand(losses.shape[:-1]) for value in self.values]
            return torch.stack(rows, -1)
        # Built on the host and sent without waiting for the device.
        return torch.tensor(self.values, dtype=losses.dtype).to(losses.device, non_blocking=True)

    def shares(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the numbers of the labelled tasks divided by their sum, zero for the others, `... x m`."""
        p = self.like(losses).where(labelled, 0)
        return p / p.sum(-1, keepdim=True)
