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

    Until :meth:`name_tasks` says which tasks there are, they are the sorted names of the preference.

    Args:
        values: the numbers by name.
    """

    def __init__(self, values: Preferences) -> None:
        if not isinstance(values, Mapping):
            raise TypeError(
                f'Parameter `preference` should be a mapping, such as `{{"depth": 2.0}}`. Found {values!r}.'
            )
        for task, value in values.items():
            numeric = isinstance(value, int | float | Tensor)
            if not numeric or not (torch.as_tensor(value > 0) & torch.as_tensor(value < inf)).all():
                raise ValueError(
                    f"Parameter `preference` should be positive and finite. Found {value!r} for task `{task}`."
                )
        self._by_name = dict(values)
        self.tasks = tuple(sorted(values))

    def name_tasks(self, names: Sequence[str]) -> None:
        """Say which tasks there are, in the order of the losses."""
        if unknown := sorted(set(self._by_name) - set(names)):
            raise ValueError(
                f"Parameter `preference` should name tasks among {list(names)}. Found `preference` for {unknown}."
            )
        self.tasks = tuple(names)

    def like(self, losses: Tensor) -> Tensor:
        """Return the numbers, `m` or `... x m`, in the dtype and on the device of ``losses``."""
        if len(self.tasks) != losses.shape[-1]:
            raise ValueError(
                "Parameter `tasks` should name all tasks where the losses have no names. "
                f"Found {losses.shape[-1]} losses, and {list(self.tasks)}."
            )
        values = [self._by_name.get(task, 1.0) for task in self.tasks]
        if any(isinstance(value, Tensor) for value in values):
            rows = [torch.as_tensor(value).to(losses).expand(losses.shape[:-1]) for value in values]
            return torch.stack(rows, -1)
        # Built on the host and sent without waiting for the device.
        return torch.tensor(values, dtype=losses.dtype).to(losses.device, non_blocking=True)

    def shares(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return the numbers of the labelled tasks divided by their sum, zero for the others, `... x m`."""
        p = self.like(losses).where(labelled, 0)
        return p / p.sum(-1, keepdim=True)
