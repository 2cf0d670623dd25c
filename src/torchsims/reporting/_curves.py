"""What happened in the epochs of runs: one panel a task, one line a label."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from torchsims.reporting._colours import MANY, WIDTH, Look, legend, legend_columns, looks
from torchsims.reporting._runs import History, Run, by_label, diverged, number

__all__ = ["training_curves", "validation_curves", "weight_curves"]

HEIGHT = 2.1  # inches of a panel
LEGEND_LINE = 0.25  # inches
CROSS = "X"
WIDE = 100  # a wider range has ticks at powers of ten only
Pick: TypeAlias = Callable[[History], Sequence[float | None]]


def training_curves(runs: Sequence[Run]) -> Figure:
    """Return the training losses: means over seeds, bands from the least to the largest, crosses where a run broke off.

    More than eight labels are drawn without bands, which would cover each other.

    Example:
        >>> losses = {"seg": [0.9, 0.5], "depth": [3.0, None]}
        >>> history = History(epoch=[1, 2], losses=losses, weights={}, merit=[], validation={})
        >>> [axis.get_title("left") for axis in training_curves([Run("EW", 0, {}, {}, history)]).axes]
        ['seg: training loss', 'depth: training loss']
    """
    tasks = dict.fromkeys(task for run in runs for task in run.history["losses"])
    return _figure(runs, {f"{task}: training loss": _losses(task) for task in tasks}, log=True)


def weight_curves(runs: Sequence[Run]) -> Figure:
    """Return the weights of the tasks, drawn as :func:`training_curves` draws losses.

    Example:
        >>> history = History(epoch=[1], losses={}, weights={"seg": [0.9]}, merit=[], validation={})
        >>> [axis.get_title("left") for axis in weight_curves([Run("EW", 0, {}, {}, history)]).axes]
        ['seg: weight']
    """
    tasks = dict.fromkeys(task for run in runs for task in run.history["weights"])
    return _figure(runs, {f"{task}: weight": _weights(task) for task in tasks}, log=True)


def validation_curves(runs: Sequence[Run]) -> Figure:
    """Return the first metric of every task on the validation split, an arrow towards better numbers in its title.

    Example:
        >>> history = History(epoch=[1], losses={}, weights={}, merit=[], validation={"seg": {"miou": [0.5]}})
        >>> runs = [Run("EW", 0, {}, {"seg": {"miou": True}}, history)]
        >>> [axis.get_title("left") for axis in validation_curves(runs).axes]
        ['seg: validation miou ↑']
    """
    first: dict[str, str] = {}
    for run in runs:
        for task, metrics in run.history["validation"].items():
            first |= {} if task in first or not metrics else {task: next(iter(metrics))}
    higher = {task: [run.better[task][m] for run in runs if m in run.better.get(task, {})] for task, m in first.items()}
    arrows = {task: (" ↑" if known[0] else " ↓") if known else "" for task, known in higher.items()}
    picks = {f"{task}: validation {metric}{arrows[task]}": _metric(task, metric) for task, metric in first.items()}
    return _figure(runs, picks, log=False)


def _losses(task: str) -> Pick:
    return lambda history: history["losses"].get(task, [])


def _weights(task: str) -> Pick:
    return lambda history: history["weights"].get(task, [])


def _metric(task: str, metric: str) -> Pick:
    return lambda history: history["validation"].get(task, {}).get(metric, [])


def _figure(runs: Sequence[Run], picks: dict[str, Pick], *, log: bool) -> Figure:
    groups = by_label(runs)
    look = looks(list(groups))
    count = max(len(picks), 1)
    legend_lines = 2 + len(groups) / legend_columns(list(groups))
    figure = Figure(figsize=(WIDTH, HEIGHT * count + LEGEND_LINE * legend_lines), layout="constrained")
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for axis, (title, pick) in zip(axes, picks.items(), strict=False):
        for label, group in groups.items():
            lines = [_line(run.history, pick) for run in group]
            _draw(axis, lines, look[label], log=log, band=len(groups) <= MANY)
            last = max((epoch for line in lines for epoch in line), default=0)
            for run, line in zip(group, lines, strict=True):
                _cross(axis, line, last + diverged(run), look[label].colour)
        axis.set_title(title, loc="left", fontsize="medium")
        axis.grid(alpha=0.25)
        if log and axis.has_data():
            _logarithmic(axis)
    axes[-1].set_xlabel("epoch")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = [Line2D([], [], color=look[k].colour, linestyle=look[k].dashes, label=k) for k in groups]
    if any(line.get_marker() == CROSS for axis in axes for line in axis.lines):
        handles.append(
            Line2D([], [], color="0.4", marker=CROSS, markersize=8, linestyle="none", label="a run broke off")
        )
    legend(figure, handles)
    return figure


def _logarithmic(axis: Axes) -> None:
    """Take logarithms, with plain numbers at the ticks."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < WIDE * low else (1,)))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def _line(history: History, pick: Pick) -> dict[int, float]:
    """Return the value of every epoch of a run."""
    return {epoch: number(value) for epoch, value in zip(history["epoch"], pick(history), strict=False)}


def _draw(axis: Axes, lines: Sequence[dict[int, float]], look: Look, *, log: bool, band: bool) -> None:
    epochs = sorted({epoch for line in lines for epoch in line})
    values = np.array([[line.get(epoch, np.nan) for epoch in epochs] for line in lines])  # seed x epoch
    values[~np.isfinite(values) | ((values <= 0) & log)] = np.nan
    known = np.isfinite(values).any(axis=0)
    if not known.any():
        return
    x, y = np.array(epochs)[known], values[:, known]
    alone = "o" if len(x) == 1 else None
    axis.plot(x, np.nanmean(y, axis=0), color=look.colour, linestyle=look.dashes, linewidth=1.6, marker=alone)
    if band and len(lines) > 1:
        low, high = np.nanmin(y, axis=0), np.nanmax(y, axis=0)
        axis.fill_between(x, low, high, color=look.colour, alpha=0.12, linewidth=0)


def _cross(axis: Axes, line: dict[int, float], last: int, colour: str) -> None:
    """Mark the last number of a run that has none at epoch ``last``."""
    end = max((epoch for epoch, value in line.items() if np.isfinite(value)), default=last)
    if end < last:
        axis.plot(end, line[end], CROSS, color=colour, markeredgecolor="white", markersize=9, zorder=4)
