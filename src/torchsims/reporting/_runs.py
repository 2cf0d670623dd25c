"""Numbers of finished runs as tables."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from torchsims.reporting._tables import Column, Row
from torchsims.training.run import Run

UNITLESS = ("r2", "auc", "accuracy")  # metrics whose mean over tasks makes sense; higher is better for all of them
Extra: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]


def summary_table(runs: Sequence[Run], extra: Extra | None = None) -> list[Row]:
    """Return one row per label, in the order in which labels appear: means over its runs, sample standard deviations.

    A NaN makes its mean NaN: leaving a diverged run out would flatter its method. Columns of ``extra`` (name, then
    label, then one number per run) come first, then the means over tasks, then the metrics.
    """
    rows: list[Row] = []
    for label in dict.fromkeys(run.label for run in runs):
        group = [run for run in runs if run.label == label]
        passes = {"passes": group[0].passes} if group[0].passes else {}
        row: dict[str, object] = {"method": label, **passes, **_counts(group, runs)}
        if any(map(selects, runs)):
            row["epoch"] = round(statistics.fmean(run.selected for run in group), 1)
        for name, values in (extra or {}).items():
            row |= _mean_and_spread(name, values[label]) if values.get(label) else {}
        numbers = [_task_means(run) | _metrics(run) for run in group]
        for name in dict.fromkeys(name for entry in numbers for name in entry):
            row |= _mean_and_spread(name, [entry.get(name, math.nan) for entry in numbers])
        rows.append(row)
    return rows


def runs_table(runs: Sequence[Run]) -> list[Row]:
    """Return one row per run: label, split if there are several, seed, the selected epoch if one is, and metrics.

    Example:
        >>> from torchsims.training import RunConfig
        >>> runs_table([Run("EW", RunConfig(seed=3), {"seg": {"miou": 0.25}}, {})])
        [{'method': 'EW', 'seed': 3, 'seg miou': 0.25}]
    """
    chosen, several = any(map(selects, runs)), has_splits(runs)
    return [
        {"method": run.label, **({"split": run.split} if several else {}), "seed": run.seed}
        | ({"epoch": run.selected} if chosen else {})
        | _task_means(run)
        | _metrics(run)
        for run in runs
    ]


def last_epoch_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with the metrics after their last epochs; nothing if no run selects its best epoch.

    Example:
        >>> from torchsims.training import RunConfig
        >>> run = Run("EW", RunConfig(select="best"), {"seg": {"miou": 0.5}}, {}, last_metrics={"seg": {"miou": 0.25}})
        >>> [found.metrics for found in last_epoch_runs([run])]
        [{'seg': {'miou': 0.25}}]
    """
    if not any(map(selects, runs)):
        return []
    return [
        replace(
            run,
            metrics=run.metrics if run.last_metrics is None else run.last_metrics,
            last_metrics=None,
            selected=run.history.epochs or run.selected,
        )
        for run in runs
    ]


def selects(run: Run) -> bool:
    """Return whether a run reports its best epoch."""
    return run.config.select == "best" or run.last_metrics is not None


def has_splits(runs: Sequence[Run]) -> bool:
    """Return whether runs were trained on several splits of their data."""
    return len({run.split for run in runs}) > 1


def _counts(group: Sequence[Run], runs: Sequence[Run]) -> dict[str, object]:
    """Return how many splits, where there are several, and seeds the runs of a label have."""
    splits = {"splits": len({run.split for run in group})} if has_splits(runs) else {}
    return {**splits, "seeds": len({run.seed for run in group})}


def mean_notes(runs: Sequence[Run]) -> list[str]:
    """Return a sentence on which tasks the means are over, where these are not all tasks."""
    trained = [(_trained_tasks(run), run) for run in runs if _task_means(run)]
    some = [", ".join(tasks) for tasks, run in trained if len(tasks) < len(run.metrics)]
    return [f"Means over tasks are those of the trained tasks: {text}." for text in some[:1]]


def _task_means(run: Run) -> dict[str, float]:
    """Return the mean over the trained tasks of every metric without a unit that at least two of them have."""
    tasks = _trained_tasks(run)
    found = {name: [run.metrics[task][name] for task in tasks if name in run.metrics[task]] for name in UNITLESS}
    prefix = "mean over tasks" if "mean" in run.metrics else "mean"  # a task may be called so
    return {f"{prefix} {name}": mean(values) for name, values in found.items() if len(values) > 1}


def _trained_tasks(run: Run) -> list[str]:
    """Return the tasks with metrics that were trained; all tasks of a run without curves, such as one that failed."""
    return [task for task in run.metrics if task in run.history.losses] or list(run.metrics)


def run_columns(runs: Sequence[Run], extra: Mapping[str, bool] | None = None) -> list[Column]:
    """Return how to show the columns of both tables; ``extra`` says of further columns whether higher is better."""
    found: dict[str, tuple[bool, str | None]] = {name: (True, None) for run in runs for name in _task_means(run)}
    for run in runs:
        found |= {f"{task} {name}": (up, task) for task, of in run.higher_is_better.items() for name, up in of.items()}
    found |= {name: (up, None) for name, up in (extra or {}).items()}
    return [Column(name, up, f"{name} sd", task) for name, (up, task) in found.items()]


def has_diverged(run: Run) -> bool:
    """Return whether a metric of the run is NaN or infinite."""
    return not all(map(math.isfinite, _metrics(run).values()))


def mean(values: Sequence[float]) -> float:
    """Return the mean; NaN if there is no value, or one that is not finite."""
    return statistics.mean(values) if values and all(map(math.isfinite, values)) else math.nan


def _metrics(run: Run) -> dict[str, float]:
    return {f"{task} {name}": value for task, of in run.metrics.items() for name, value in of.items()}


def _mean_and_spread(name: str, values: Sequence[float]) -> dict[str, object]:
    finite = all(map(math.isfinite, values))
    spread = (statistics.stdev(values) if finite else math.nan) if len(values) > 1 else None
    return {name: mean(values), f"{name} sd": spread}
