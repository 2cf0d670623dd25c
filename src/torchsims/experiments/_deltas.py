"""Runs relative to those of a baseline."""

from collections.abc import Iterable, Sequence
from math import nan
from statistics import fmean

from torchsims.metrics import delta_b
from torchsims.reporting import Run

__all__ = ["deltas", "mean_metrics", "rescaled_pairs"]


def deltas(runs: Sequence[Run], baseline: str) -> dict[str, list[float]]:
    """Return Delta_b of every run against the mean of the baseline, by label; nothing if there is no baseline.

    It is NaN for all where a metric of the baseline is zero, or is none.

    Args:
        runs: the runs.
        baseline: a label.
    """
    mean = mean_metrics([run for run in runs if run.label == baseline])
    zero = any(value == 0 for values in mean.values() for value in values.values())
    found: dict[str, list[float]] = {}
    for run in runs if mean else ():
        found.setdefault(run.label, []).append(nan if zero else delta_b(run.metrics, mean, run.better))
    return found


def mean_metrics(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Return the mean of every metric; nothing if there is no run."""
    return {
        task: {metric: fmean(run.metrics[task][metric] for run in runs) for metric in metrics}
        for task, metrics in (runs[0].metrics.items() if runs else ())
    }


def rescaled_pairs(labels: Iterable[str]) -> dict[str, str]:
    """Return the label with a rescaled loss for every label that has one.

    Example:
        >>> rescaled_pairs(["EW", "SIMS", "EW, depth x 100", "GLS, depth x 100"])
        {'EW': 'EW, depth x 100'}
    """
    labels = list(labels)
    return {
        label: other
        for label in labels
        for other in labels
        if other.startswith(f"{label}, ") and all(" x " in part for part in other[len(label) + 2 :].split(", "))
    }
