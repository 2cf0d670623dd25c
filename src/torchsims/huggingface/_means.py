"""Losses over many steps or batches, by task."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from math import exp, isnan, log, nan
from statistics import fmean
from typing import final

import torch
from torch import Tensor

from torchsims.losses import Reading
from torchsims.steppers import Report

__all__ = ["EvaluatedLosses", "StepMeans", "geometric_mean"]


def geometric_mean(losses: Iterable[float]) -> float:
    """Return one number for all losses: other units multiply it by a constant, so that what is best stays best.

    NaN, the loss of a task without labels, is left out. Without any loss, or with a negative one, the result is NaN.

    Example:
        >>> round(geometric_mean([1.0, 100.0, float("nan")]), 6)
        10.0
    """
    known = [loss for loss in losses if not isnan(loss)]
    if not known or min(known) < 0:
        return nan
    return exp(fmean(map(log, known))) if min(known) > 0 else 0.0


@final
class StepMeans:
    """The means of losses and weights over the steps since they were last taken.

    Example:
        >>> means = StepMeans()
        >>> for loss in (1.0, 3.0):
        ...     _ = means.add(Report(losses={"a": loss}, weights={"a": 1.0}))
        >>> means.take(), means.take()
        ({'a_loss': 2.0, 'a_weight': 1.0}, {})
    """

    def __init__(self) -> None:
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._counts: Counter[str] = Counter()
        self._undefined = False  # whether a step had no geometric mean

    def add(self, report: Report) -> float:
        """Add a step, in which a task without labels has no loss; return the geometric mean of its losses."""
        for kind, values in (("loss", report.losses), ("weight", report.weights)):
            for task, value in values.items():
                if not isnan(value):
                    self._sums[f"{task}_{kind}"] += value
                    self._counts[f"{task}_{kind}"] += 1
        mean = geometric_mean(report.losses.values())
        self._undefined |= isnan(mean)
        return mean

    def take(self) -> dict[str, float]:
        """Return the means by the names that the log has for them, and start anew.

        ``loss`` is among them, as NaN, only if a step had no geometric mean: the `Trainer` leaves such steps out.
        """
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        if self._undefined:
            means["loss"] = nan
        self._sums.clear()
        self._counts.clear()
        self._undefined = False
        return means


@final
class EvaluatedLosses:
    """Totals and counts over the batches of an evaluation."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._sums: Tensor | None = None  # (total or count, task)

    def add(self, reading: Reading, samples: int) -> None:
        """Add what the closure returned for a batch; plain means, which have no counts, are weighted by its size.

        Args:
            reading: what the closure returned.
            samples: the number of samples in the batch.
        """
        if self._sums is not None and reading.names != self._names:
            raise ValueError(
                f"The closure should return the tasks {list(self._names)} in every call. Found {list(reading.names)}."
            )
        sums = torch.stack([reading.total.detach(), reading.count]) * (samples if reading.scalars else 1)
        self._names, self._sums = reading.names, sums if self._sums is None else self._sums + sums

    def losses(self, reduce: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """Return the loss of every task that had a label.

        Args:
            reduce: sums a tensor over the processes.
        """
        if self._sums is None:
            return {}
        total, count = reduce(self._sums).double().cpu()
        return {name: float(t / n) for name, t, n in zip(self._names, total, count, strict=True) if n}
