"""One number a run, compared over labels or over values of a parameter."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torchsims.reporting._colours import COLOURS, WIDTH, legend
from torchsims.reporting._runs import number

__all__ = ["delta_bars", "metric_against", "paired_change"]

LINE = 0.36  # inches of a label
AROUND = 0.9  # inches beside the labels
PANEL = 1.9  # inches of a curve
BEFORE, AFTER = COLOURS[0], COLOURS[1]


def delta_bars(values: Mapping[str, Sequence[float]], name: str = r"$\Delta_b$") -> Figure:
    r"""Return a bar for the mean of every label, and a dot for every seed; no bar where a seed has no number.

    Args:
        values: label, then one number a seed.
        name: what the numbers are.

    Example:
        >>> figure = delta_bars({"EW": [-0.25, -0.75], "SIMS": [0.5]})
        >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
        [-0.5, 0.5]
    """
    figure, axis = _labels(values, name)
    for at, numbers in enumerate(values.values()):
        if np.isfinite(mean := _mean(numbers)):
            axis.barh(at, mean, height=0.6, color="#9ecae1", edgecolor=BEFORE, linewidth=0.8)
        axis.plot(list(map(number, numbers)), [at] * len(numbers), "o", color="black", markersize=4, alpha=0.75)
    axis.axvline(0.0, color="black", linewidth=0.8)
    return figure


def paired_change(
    before: Mapping[str, Sequence[float]],
    after: Mapping[str, Sequence[float]],
    name: str,
    *,
    names: tuple[str, str] = ("as they are", "rescaled"),
) -> Figure:
    """Return two marks a label, the means before and after a change, with a line between them and a dot a seed.

    Args:
        before: label, then one number a seed.
        after: the same after the change.
        name: what the numbers are.
        names: what stands before and after.

    Example:
        >>> figure = paired_change({"EW": [0.25], "SIMS": [0.5]}, {"EW": [0.125], "SIMS": [0.5]}, "seg miou")
        >>> figure.axes[0].get_xlabel()
        'seg miou'
    """
    both = {label: [*before.get(label, ()), *after.get(label, ())] for label in [*before, *after]}
    figure, axis = _labels(both, name, more=0.3)
    for at, label in enumerate(both):
        ends = [_mean(values.get(label, ())) for values in (before, after)]
        axis.plot(ends, [at, at], color="0.7", linewidth=3, solid_capstyle="round", zorder=1)
        for values, end, colour, mark, zorder in ((before, ends[0], BEFORE, "o", 3), (after, ends[1], AFTER, "D", 2)):
            numbers = list(map(number, values.get(label, ())))
            axis.plot(numbers, [at] * len(numbers), mark, color=colour, markersize=4, alpha=0.6, zorder=zorder)
            axis.plot(end, at, mark, color=colour, markersize=9, zorder=zorder)
    marks = [("o", BEFORE, names[0]), ("D", AFTER, names[1])]
    legend(figure, [Line2D([], [], color=c, marker=m, markersize=8, linestyle="none", label=n) for m, c, n in marks])
    return figure


def metric_against(
    parameter_values: Sequence[float],
    curves: Mapping[str, tuple[Sequence[float], Sequence[float | None]]],
    xlabel: str,
) -> Figure:
    """Return how numbers depend on a parameter: one panel a curve, bars of one standard deviation.

    The axis is logarithmic; values that include zero are drawn at equal distances instead.

    Args:
        parameter_values: the values of the parameter, increasing.
        curves: name, then means and standard deviations, one a value.
        xlabel: what the parameter is.

    Example:
        >>> figure = metric_against([0.0, 0.1, 1.0], {"seg miou": ([0.5, 0.6, 0.55], [0.01, None, 0.02])}, "lambda")
        >>> [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
        ['0', '0.1', '1']
    """
    logarithmic = min(parameter_values) > 0
    x = list(parameter_values) if logarithmic else [float(i) for i in range(len(parameter_values))]
    figure = Figure(figsize=(WIDTH, PANEL * len(curves) + 0.4), layout="constrained")
    axes = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (name, (means, spreads)) in zip(axes, curves.items(), strict=True):
        y, error = ([number(value) for value in values] for values in (means, spreads))
        axis.errorbar(x, y, yerr=np.nan_to_num(error), color=BEFORE, marker="o", capsize=3, linewidth=1.6)
        axis.set_title(name, loc="left", fontsize="medium")
        axis.grid(alpha=0.25)
    if logarithmic:
        axes[-1].set_xscale("log")
    axes[-1].set_xticks(x, [f"{value:g}" for value in parameter_values])
    axes[-1].set_xticks([], minor=True)
    axes[-1].set_xlabel(xlabel)
    return figure


def _labels(values: Mapping[str, Sequence[float]], name: str, more: float = 0.0) -> tuple[Figure, Axes]:
    """Return an axis with one line a label, from the top; a label says how many of its runs have no number."""
    labels = [label + _missing(numbers) for label, numbers in values.items()]
    figure = Figure(figsize=(WIDTH, LINE * len(labels) + AROUND + more), layout="constrained")
    axis = figure.subplots()
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(name)
    axis.grid(axis="x", alpha=0.25)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    return figure, axis


def _missing(numbers: Sequence[float]) -> str:
    missing = sum(not np.isfinite(number(value)) for value in numbers)
    return f"\n{missing} of {len(numbers)} without a number" if missing else ""


def _mean(numbers: Sequence[float]) -> float:
    """Return the mean; none if one of the numbers is none."""
    return float(np.mean(list(map(number, numbers)))) if numbers else math.nan
