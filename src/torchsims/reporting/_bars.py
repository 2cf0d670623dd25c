"""One number per run, compared over labels, over values of a parameter, or over two parameters."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import isfinite

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from torchsims.reporting._runs import mean
from torchsims.reporting._style import BAR, COLOURS, INK, LINK, PAPER, WIDTH, add_legend, figure_text, shorten

LINE = 0.36  # inches of a label of one or two lines
LETTERS = 26  # in a line of a label
AROUND = 0.9  # inches beside the labels
TICK_LETTERS = 20  # in a line of a label beside a heat map
ACROSS, SLANTED = 30, 16  # letters of a label under a heat map, and from how many on it stands upright
LETTER = 0.07  # inches of the height of an upright letter
PANEL = 1.9  # inches of a curve
DARK = 0.45  # brightness below which white letters can be read
BEFORE, AFTER = COLOURS[0], COLOURS[1]


def delta_bars(values: Mapping[str, Sequence[float]], name: str = "Delta_b") -> Figure:
    """Return a bar for the mean of every label and a dot for every run; no bar where a number is NaN."""
    figure, axis = _label_axis(values, name)
    for at, numbers in enumerate(values.values()):
        if isfinite(center := mean(numbers)):
            axis.barh(at, center, height=0.6, color=BAR, edgecolor=BEFORE, linewidth=0.8)
        axis.plot(numbers, [at] * len(numbers), "o", color="black", markersize=4, alpha=0.75)
    axis.axvline(0.0, color="black", linewidth=0.8)
    return figure


def paired_change(before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]], name: str) -> Figure:
    """Return two marks per label, the means before and after rescaling, a line between them and a dot per run."""
    both = {label: [*before.get(label, ()), *after.get(label, ())] for label in [*before, *after]}
    figure, axis = _label_axis(both, name, more=0.3)
    for at, label in enumerate(both):
        ends = [mean(values.get(label, ())) for values in (before, after)]
        axis.plot(ends, [at, at], color=LINK, linewidth=3, solid_capstyle="round", zorder=1)
        for values, end, colour, mark, zorder in ((before, ends[0], BEFORE, "o", 3), (after, ends[1], AFTER, "D", 2)):
            numbers = values.get(label, ())
            axis.plot(numbers, [at] * len(numbers), mark, color=colour, markersize=4, alpha=0.6, zorder=zorder)
            axis.plot(end, at, mark, color=colour, markersize=9, zorder=zorder)
    marks = [
        Line2D([], [], color=colour, marker=mark, markersize=8, linestyle="none")
        for mark, colour in (("o", BEFORE), ("D", AFTER))
    ]
    add_legend(figure, marks, ("as they are", "rescaled"))
    return figure


def metric_against(
    parameter_values: Sequence[float],
    curves: Mapping[str, tuple[Sequence[float], Sequence[float | None]]],
    xlabel: str,
) -> Figure:
    """Return how numbers depend on a parameter: one panel per curve, bars of one standard deviation.

    The axis is logarithmic; values that include zero are drawn at equal distances instead. Values increase; ``curves``
    are means and standard deviations per value, by name; text between dollar signs in ``xlabel`` is a formula.

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
        error = np.nan_to_num(np.array(spreads, dtype=float))
        axis.errorbar(x, means, yerr=error, color=BEFORE, marker="o", capsize=3, linewidth=1.6)
        axis.set_title(figure_text(name), loc="left", fontsize="medium")
        axis.grid(alpha=0.25)
    if logarithmic:
        axes[-1].set_xscale("log")
    axes[-1].set_xticks(x, [f"{value:g}" for value in parameter_values])
    axes[-1].set_xticks([], minor=True)
    axes[-1].set_xlabel(xlabel)
    return figure


def heat_maps(
    panels: Mapping[str, NDArray[np.float64]],
    across: tuple[str, Sequence[float | str]],
    up: tuple[str, Sequence[float | str]],
    name: str,
    *,
    low_is_good: bool = False,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Return one map per panel, all with the same colours, and the number in every cell, whole or with two decimals.

    Args:
        panels: `up x across`, by title; NaN where there is no number.
        across: name and values, or labels, of the horizontal axis; text between dollar signs in the name is a formula.
        up: name and values, or labels, of the vertical axis.
        name: what the numbers are.
        low_is_good: whether green is low.
        limits: numbers at the ends of the colours; the smallest and the largest number by default.

    Example:
        >>> [text.get_text() for text in heat_maps({"a": np.eye(2)}, ("x", [1, 2]), ("y", [0, 3]), "z").axes[0].texts]
        ['1', '0', '0', '1']
    """
    below = [shorten(each, ACROSS) if isinstance(each, str) else f"{each:g}" for each in across[1]]
    longest = max(map(len, below))
    upright = longest > SLANTED
    size = (2.1 + max(2.0, 0.62 * len(below)) * len(panels), 1.6 + 0.42 * len(up[1]) + LETTER * longest * upright)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    known = np.concatenate([panel[np.isfinite(panel)] for panel in panels.values()])
    decimals = 0 if (known == known.round()).all() else 2
    low, high = limits or ((known.min(), known.max()) if known.size else (0.0, 1.0))
    if low == high:  # all numbers have the colour in the middle
        low, high = low - 0.5, high + 0.5
    colours = "RdYlGn_r" if low_is_good else "RdYlGn"
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(panel, cmap=colours, vmin=low, vmax=high, origin="lower", aspect="auto")
        for cell in product(*map(range, panel.shape)):
            text = f"{panel[cell]:z.{decimals}f}" if isfinite(panel[cell]) else "none"
            red, green, blue, _ = image.cmap(image.norm(panel[cell]))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < DARK
            axis.text(cell[1], cell[0], text, ha="center", va="center", color=PAPER if dark else INK, fontsize=8)
        slanted = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if isinstance(across[1][0], str) else {}
        axis.set_xticks(range(len(below)), list(map(figure_text, below)), **({"rotation": 90} if upright else slanted))
        axis.set_yticks(range(len(up[1])), list(map(_tick, up[1])))
        axis.set_xlabel(across[0])
        axis.set_title(figure_text(title))
    axes[0].set_ylabel(up[0])
    figure.colorbar(image, ax=axes, label=figure_text(name))
    return figure


def share_bars(shares: Mapping[str, Mapping[str, float]]) -> Figure:
    """Return one bar per task for each of two kinds of shares: by the name of what is summed up, then by task."""
    tasks = list(next(iter(shares.values())))
    figure, axis = _label_axis({task: [] for task in tasks}, "share of the gradients", more=0.3)
    height = 0.8 / len(shares)
    colours = dict(zip(shares, COLOURS, strict=False))
    for row, (name, values) in enumerate(shares.items()):
        at = [index + (row - (len(shares) - 1) / 2) * height for index in range(len(tasks))]
        known = [value if isfinite(value) else 0.0 for value in values.values()]
        axis.barh(at, known, height=0.9 * height, color=colours[name])
    marks = [Line2D([], [], color=colour, marker="s", markersize=8, linestyle="none") for colour in colours.values()]
    axis.set_xlim(0.0, 1.0)
    add_legend(figure, marks, [f"in a sum of {name}" for name in shares])
    return figure


def _tick(value: float | str) -> str:
    return figure_text(value, TICK_LETTERS) if isinstance(value, str) else f"{value:g}"


def _label_axis(values: Mapping[str, Sequence[float]], name: str, more: float = 0.0) -> tuple[Figure, Axes]:
    """Return an axis with one line per label, from the top; a label says how many of its numbers are NaN."""
    labels = []
    for label, numbers in values.items():
        missing = sum(not isfinite(value) for value in numbers)
        note = f"\n{missing} of {len(numbers)} without a number" if missing else ""
        labels.append(figure_text(label, LETTERS) + note)
    lines = max([2, *(1 + label.count("\n") for label in labels)])
    figure = Figure(figsize=(WIDTH, LINE / 2 * lines * len(labels) + AROUND + more), layout="constrained")
    axis = figure.subplots()
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(figure_text(name))
    axis.grid(axis="x", alpha=0.25)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    return figure, axis
