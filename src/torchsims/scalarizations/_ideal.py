"""What methods that measure the distance to an ideal point share."""

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from torchsims.scalarizations._base import Scalarization

PerTask: TypeAlias = Mapping[str, float] | Sequence[float]
"""One number per task, by name or in the order of the losses."""


class FromIdeal(Scalarization, ABC):
    r"""A method of the weighted distances :math:`w_i (L_i - z_i)`.

    By default :math:`w_i` is one over the number of labelled tasks and :math:`z_i` is zero. A mapping fixes the names
    of the tasks; without ``tasks``, stacked losses are then in the order of the sorted names.
    """

    def __init__(self, weights: PerTask | None, ideal: PerTask | None, tasks: Sequence[str] | None = None) -> None:
        names = _names(weights, ideal)
        if names is not None and tasks is not None and names != sorted(tasks):
            raise ValueError(
                f"The names of the tasks should be the same everywhere. Found {names} and {sorted(tasks)}."
            )
        super().__init__(names if tasks is None else tasks)
        self.weights, self.ideal = self._values(weights), self._values(ideal)
        if self.weights is not None and not all(0 < w < math.inf for w in self.weights):
            raise ValueError(f"Parameter `weights` should be positive. Found `weights = {weights}`.")
        if self.ideal is not None and not all(math.isfinite(z) for z in self.ideal):
            raise ValueError(f"Parameter `ideal` should be finite. Found `ideal = {ideal}`.")
        if self.weights is not None and self.ideal is not None and len(self.weights) != len(self.ideal):
            found = f"{len(self.weights)} and {len(self.ideal)}"
            raise ValueError(f"Parameters `weights` and `ideal` should have the same length. Found {found}.")

    def _values(self, setting: PerTask | None) -> tuple[float, ...] | None:
        if isinstance(setting, Mapping):
            return tuple(float(setting[name]) for name in self.tasks or ())
        return None if setting is None else tuple(float(value) for value in setting)

    def _distances(self, losses: Tensor, labelled: Tensor) -> Tensor:
        """Return :math:`w_i (L_i - z_i)`, `... x m`."""
        distances = self._from_ideal(losses)
        if self.weights is None:
            return distances / labelled.sum(-1, keepdim=True)
        return distances * _like(losses, self.weights, "weights")

    def _from_ideal(self, losses: Tensor) -> Tensor:
        """Return :math:`L_i - z_i`, `... x m`."""
        return losses if self.ideal is None else losses - _like(losses, self.ideal, "ideal")


def _names(*settings: PerTask | None) -> list[str] | None:
    named = [sorted(setting) for setting in settings if isinstance(setting, Mapping)]
    if len(named) == 2 and named[0] != named[1]:
        raise ValueError(
            f"Parameters `weights` and `ideal` should name the same tasks. Found {named[0]} and {named[1]}."
        )
    return named[0] if named else None


def _like(losses: Tensor, values: tuple[float, ...], name: str) -> Tensor:
    if len(values) != losses.shape[-1]:
        raise ValueError(
            f"Parameter `{name}` should have one value per task. Found {len(values)} for {losses.shape[-1]} losses."
        )
    # Built on the host and sent without waiting for the device.
    return torch.tensor(values, dtype=losses.dtype).to(losses.device, non_blocking=True)
