from collections.abc import Mapping
from math import isnan, nan
from typing import Any

__all__ = ["History"]


class History:
    """Means over the steps of every epoch, and the metrics after it.

    Everything is plain numbers, so that a checkpoint holds it as it is. Losses are in the units of the data: what
    ``rescale`` multiplied is divided again.
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []
        self.steps: list[dict[str, float]] = []
        """The steps of the epoch that is not finished."""

    def end_epoch(self, metrics: Mapping[str, float]) -> None:
        """Close an epoch."""
        names = dict.fromkeys(name for step in self.steps for name in step)
        means = {name: _mean([step.get(name, nan) for step in self.steps]) for name in names}
        self.epochs.append({**means, **metrics})
        self.steps = []

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        return {"epochs": self.epochs, "steps": self.steps}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        self.epochs, self.steps = list(state["epochs"]), list(state["steps"])

    def curves(self) -> dict[str, Any]:
        """Return curves over the epochs, nested by the parts of their names: ``["losses"]["depth"]``."""
        curves: dict[str, Any] = {
            "epoch": list(range(1, len(self.epochs) + 1)),
            "losses": {},
            "weights": {},
            "merit": [],
            "validation": {},
        }
        for name in dict.fromkeys(name for epoch in self.epochs for name in epoch):
            *path, last = name.split("/")
            place = curves
            for part in path:
                place = place.setdefault(part, {})
            place[last] = [epoch.get(name, nan) for epoch in self.epochs]
        return curves


def _mean(values: list[float]) -> float:
    """Return the mean of those that are numbers."""
    numbers = [value for value in values if not isnan(value)]
    return sum(numbers) / len(numbers) if numbers else nan
