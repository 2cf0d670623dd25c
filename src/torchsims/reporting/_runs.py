"""Finished runs, and their numbers as tables."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

import numpy.typing as npt

from torchsims.reporting._columns import Column, Row

__all__ = [
    "History",
    "Run",
    "Samples",
    "by_label",
    "diverged",
    "number",
    "run_columns",
    "runs_table",
    "table",
    "task_means",
    "trained_tasks",
]

Samples: TypeAlias = Mapping[str, npt.NDArray[Any]]
UNITLESS = ("r2", "auc", "accuracy")  # metrics whose mean over tasks says something; higher is better for all of them
Extra: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]


class History(TypedDict):
    """What happened in the epochs of a run, as JSON holds it: null where a number was none.

    Example:
        >>> History(epoch=[1], losses={"seg": [0.9]}, weights={"seg": [0.5]}, merit=[], validation={})["epoch"]
        [1]
    """

    epoch: Sequence[int]
    losses: Mapping[str, Sequence[float | None]]
    weights: Mapping[str, Sequence[float | None]]
    merit: Sequence[float | None]
    validation: Mapping[str, Mapping[str, Sequence[float | None]]]


@dataclass(frozen=True, eq=False)
class Run:
    """One training run, as it is read back from its folder.

    Attributes:
        label: the method and what was changed; runs with the same label differ in their seed.
        seed: the seed.
        metrics: task, then metric, then the number on the test split; NaN after a divergence.
        better: task, then metric, then whether higher is better.
        history: the epochs.
        samples: arrays for some images of the test split, or None. ``"image"`` is `n x 3 x height x width` in [0, 1];
            ``"truth/seg"`` and ``"prediction/seg"`` hold classes, `n x height x width`, negative where unknown; depth
            is `n x 1 x height x width`, 0 where unknown; normals `n x 3 x height x width`, zero where unknown; edges
            `n x 1 x height x width`, 0 or 1, a prediction the probability.
        starved: the tasks that the method gave almost no weight although they could be learned.

    Example:
        >>> history = History(epoch=[], losses={}, weights={}, merit=[], validation={})
        >>> Run("SIMS", 0, {"seg": {"miou": 0.7}}, {"seg": {"miou": True}}, history, None).label
        'SIMS'
    """

    label: str
    seed: int
    metrics: Mapping[str, Mapping[str, float]]
    better: Mapping[str, Mapping[str, bool]]
    history: History
    samples: Samples | None = None
    starved: Sequence[str] = ()


def table(runs: Sequence[Run], extra: Extra | None = None) -> list[Row]:
    """Return one row a label, in the order in which labels appear: means over seeds and sample standard deviations.

    A number that is none makes its mean none: leaving a diverged run out would flatter its method. Before the metrics
    stand their means over tasks, see :func:`task_means`.

    Args:
        runs: the runs.
        extra: columns before those of the metrics: name, then label, then one number a seed.

    Example:
        >>> history = History(epoch=[], losses={}, weights={}, merit=[], validation={})
        >>> runs = [Run("EW", seed, {"seg": {"miou": 0.25 + seed}}, {}, history) for seed in (0, 1)]
        >>> table(runs, {"gain": {"EW": [0.5]}})
        [{'method': 'EW', 'seeds': 2, 'gain': 0.5, 'gain sd': None, 'seg miou': 0.75, 'seg miou sd': 0.707...}]
    """
    rows: list[Row] = []
    for label, group in by_label(runs).items():
        row: dict[str, object] = {"method": label, "seeds": len(group)}
        for name, values in (extra or {}).items():
            row |= _mean(name, [number(value) for value in values[label]]) if values.get(label) else {}
        over_tasks = [task_means(run) for run in group]
        for name in over_tasks[0]:
            row |= _mean(name, [number(means.get(name)) for means in over_tasks])
        for task, metric in _metrics(group):
            row |= _mean(f"{task} {metric}", [number(run.metrics.get(task, {}).get(metric)) for run in group])
        rows.append(row)
    return rows


def runs_table(runs: Sequence[Run]) -> list[Row]:
    """Return one row a run: its label, its seed and its numbers.

    Example:
        >>> history = History(epoch=[], losses={}, weights={}, merit=[], validation={})
        >>> runs_table([Run("EW", 3, {"seg": {"miou": 0.25}}, {}, history)])
        [{'method': 'EW', 'seed': 3, 'seg miou': 0.25}]
    """
    return [
        {"method": run.label, "seed": run.seed}
        | task_means(run)
        | {f"{task} {name}": number(value) for task, of in run.metrics.items() for name, value in of.items()}
        for run in runs
    ]


def task_means(run: Run) -> dict[str, float]:
    """Return the mean over tasks of every metric without a unit that at least two tasks have.

    The tasks are those that were trained; a metric of another one is computed from theirs.

    Example:
        >>> history = History(epoch=[1], losses={"ctr": [0.2], "cvr": [0.1]}, weights={}, merit=[], validation={})
        >>> metrics = {"ctr": {"auc": 0.75}, "cvr": {"auc": 0.5}, "ctcvr": {"auc": 0.9}}
        >>> task_means(Run("EW", 0, metrics, {}, history))
        {'mean auc': 0.625}
    """
    tasks = trained_tasks(run)
    found = {
        name: [number(run.metrics[task][name]) for task in tasks if name in run.metrics[task]] for name in UNITLESS
    }
    return {f"mean {name}": statistics.fmean(values) for name, values in found.items() if len(values) > 1}


def trained_tasks(run: Run) -> list[str]:
    """Return the tasks with metrics that were trained; all of them if nobody knows, as of a run that failed.

    Example:
        >>> history = History(epoch=[1], losses={"ctr": [0.2]}, weights={}, merit=[], validation={})
        >>> trained_tasks(Run("EW", 0, {"ctr": {"auc": 0.75}, "ctcvr": {"auc": 0.9}}, {}, history))
        ['ctr']
    """
    return [task for task in run.metrics if task in run.history["losses"]] or list(run.metrics)


def run_columns(runs: Sequence[Run], extra: Mapping[str, bool] | None = None) -> list[Column]:
    """Return how to show the columns of :func:`table` and :func:`runs_table`.

    Args:
        runs: the runs.
        extra: whether higher is better, for further columns.

    Example:
        >>> history = History(epoch=[], losses={}, weights={}, merit=[], validation={})
        >>> runs = [Run("EW", 0, {"depth": {"abs_err": 0.25}}, {"depth": {"abs_err": False}}, history)]
        >>> [column.header for column in run_columns(runs, {"Delta_b": True})]
        ['depth abs_err ↓', 'Delta_b ↑']
    """
    higher = {name: True for run in runs for name in task_means(run)}
    higher |= {
        f"{task} {name}": better for run in runs for task, of in run.better.items() for name, better in of.items()
    }
    return [Column(name, better, f"{name} sd") for name, better in (higher | dict(extra or {})).items()]


def by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of every label, in the order in which labels appear."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


def diverged(run: Run) -> bool:
    """Return whether a number of the run is none."""
    return not all(math.isfinite(number(value)) for of in run.metrics.values() for value in of.values())


def number(value: float | None) -> float:
    """Return a number, NaN for None: JSON knows no NaN."""
    return math.nan if value is None else float(value)


def _metrics(runs: Sequence[Run]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((task, name) for run in runs for task, of in run.metrics.items() for name in of))


def _mean(name: str, values: Sequence[float]) -> dict[str, object]:
    finite = all(map(math.isfinite, values))
    spread = (statistics.stdev(values) if finite else math.nan) if len(values) > 1 else None
    return {name: statistics.fmean(values) if finite else math.nan, f"{name} sd": spread}
