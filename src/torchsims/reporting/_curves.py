"""What happened in the epochs of runs: one panel per task, one line per label."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from torchsims.reporting._runs import has_diverged
from torchsims.reporting._style import (
    FAINT,
    MANY,
    WIDTH,
    LineStyle,
    add_legend,
    figure_text,
    legend_columns,
    line_styles,
)
from torchsims.training.run import History, Run

HEIGHT = 2.1  # inches of a panel
LEGEND_LINE = 0.25  # inches
CROSS, RING = "X", "o"
SIZES = {CROSS: 9.0, RING: 6.5}
PAIRS = 6  # of tasks, whose cosines are drawn
NARROW, WIDE = 5, 100  # a narrower range has ticks at equal distances, a wider one at powers of ten only
Panels: TypeAlias = Sequence[tuple[str, Sequence[Sequence[float]]]]
"""Title and one curve per run; the first number of a curve is that of epoch 1."""


def training_curves(runs: Sequence[Run]) -> Figure:
    """Return the training losses: means over seeds, bands from minimum to maximum, crosses where a run diverged.

    More than eight labels are drawn without bands, which would cover each other.
    """
    return _figure(runs, _panels(runs, lambda history: history.losses, "training loss"), log=True)


def weight_curves(runs: Sequence[Run]) -> Figure:
    """Return the shares of the tasks in what a step descends, drawn as :func:`training_curves` draws losses."""
    return _figure(runs, _panels(runs, lambda history: history.influence, "share in the step"), log=True)


def validation_curves(runs: Sequence[Run]) -> Figure:
    """Return the first metric of every task on the validation split, an arrow towards better numbers in its title."""
    panels = []
    for task in dict.fromkeys(task for run in runs for task in run.history.validation):
        metric = next(name for run in runs for name in run.history.validation.get(task, ()))
        known = [run.higher_is_better[task][metric] for run in runs if metric in run.higher_is_better.get(task, {})]
        arrow = (" ↑" if known[0] else " ↓") if known else ""
        curves = [run.history.validation.get(task, {}).get(metric, []) for run in runs]
        panels.append((f"{task}: validation {metric}{arrow}", curves))
    return _figure(runs, panels, log=False)


def share_curves(runs: Sequence[Run]) -> Figure:
    """Return the shares of the tasks in the lengths of all gradients, of the runs that measured them."""
    return _figure(runs, _panels(runs, lambda history: history.shares, "share of the gradients"), log=True)


def cosine_curves(runs: Sequence[Run]) -> Figure:
    """Return the cosines of the gradients of two tasks: of the six pairs with the lowest means, the lowest first."""
    pairs = dict.fromkeys((a, b) for run in runs for a, row in run.history.cosines.items() for b in row)
    curves = {(a, b): [run.history.cosines.get(a, {}).get(b, []) for run in runs] for a, b in pairs}
    known = {pair: [v for curve in of for v in curve if np.isfinite(v)] for pair, of in curves.items()}
    means = {pair: float(np.mean(values)) if values else np.inf for pair, values in known.items()}
    lowest = sorted(pairs, key=lambda pair: means[pair])[:PAIRS]
    return _figure(runs, [(f"{a} and {b}: cosine of the gradients", curves[a, b]) for a, b in lowest], log=False)


def _panels(runs: Sequence[Run], pick: Callable[[History], Mapping[str, list[float]]], name: str) -> Panels:
    tasks = dict.fromkeys(task for run in runs for task in pick(run.history))
    return [(f"{task}: {name}", [pick(run.history).get(task, []) for run in runs]) for task in tasks]


def _figure(runs: Sequence[Run], panels: Panels, *, log: bool) -> Figure:
    labels = list(dict.fromkeys(run.label for run in runs))
    styles = line_styles(labels)
    count = max(len(panels), 1)
    legend_lines = 2 + len(labels) / legend_columns(list(map(figure_text, labels)))
    figure = Figure(figsize=(WIDTH, HEIGHT * count + LEGEND_LINE * legend_lines), layout="constrained")
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for axis, (title, curves) in zip(axes, panels, strict=False):
        for label in labels:
            group = [(r, c) for r, c in zip(runs, curves, strict=True) if r.label == label]
            _draw_label(axis, group, styles[label], log=log, band=len(labels) <= MANY)
        axis.set_title(figure_text(title), loc="left", fontsize="medium")
        axis.grid(alpha=0.25)
        if log and axis.has_data():
            _set_log_scale(axis)
    axes[-1].set_xlabel("epoch")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = [Line2D([], [], color=colour, linestyle=dashes) for colour, dashes in styles.values()]
    drawn = {line.get_marker() for axis in axes for line in axis.lines}
    for mark, inside, text in ((RING, "white", "selected epoch"), (CROSS, FAINT, "a run diverged")):
        if mark in drawn:
            handles.append(_mark([], [], mark, FAINT, inside))
            labels.append(text)
    add_legend(figure, handles, labels)
    return figure


def _set_log_scale(axis: Axes) -> None:
    """Make the vertical axis logarithmic, with decimal numbers at the ticks."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    locator = LogLocator(subs=(1, 2, 5) if high < WIDE * low else (1,), numticks=8)
    inside = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
    axis.yaxis.set_major_locator(locator if len(inside) > 1 and high > NARROW * low else MaxNLocator(4))
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(NullFormatter())


def _mark(x: Sequence[float], y: Sequence[float], mark: str, colour: str, inside: str) -> Line2D:
    edge = "white" if mark == CROSS else colour
    return Line2D(
        x,
        y,
        marker=mark,
        markersize=SIZES[mark],
        markerfacecolor=inside,
        markeredgecolor=edge,
        linestyle="none",
        zorder=4,
    )


def _draw_label(
    axis: Axes, group: Sequence[tuple[Run, Sequence[float]]], style: LineStyle, *, log: bool, band: bool
) -> None:
    """Draw the runs of one label: mean and band of their curves, where epochs were selected and runs diverged."""
    colour, dashes = style
    epochs = max(len(curve) for _, curve in group)
    values = np.full((len(group), epochs), np.nan)  # seed x epoch
    for row, (_, curve) in zip(values, group, strict=True):
        row[: len(curve)] = curve
    values[~np.isfinite(values) | ((values <= 0) & log)] = np.nan
    known = np.isfinite(values).any(axis=0)
    if not known.any():
        return
    x, y = 1 + np.flatnonzero(known), values[:, known]
    marker = "s" if len(x) == 1 else None
    center = np.nanmean(y, axis=0)
    axis.plot(x, center, color=colour, linestyle=dashes, linewidth=1.6, marker=marker)
    if band and len(group) > 1:
        low, high = np.nanmin(y, axis=0), np.nanmax(y, axis=0)
        axis.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    chosen = np.isin(x, [run.selected for run, _ in group if run.config.select != "last"])
    if chosen.any():
        axis.add_line(_mark(x[chosen].tolist(), center[chosen].tolist(), RING, colour, "white"))
    for row, (run, _) in zip(values, group, strict=True):  # a cross at the last number of a run that has no more
        end = max(np.flatnonzero(np.isfinite(row)), default=epochs - 1)
        if end < epochs - 1 + has_diverged(run) and np.isfinite(row[end]):
            axis.add_line(_mark([float(end + 1)], [float(row[end])], CROSS, colour, colour))
