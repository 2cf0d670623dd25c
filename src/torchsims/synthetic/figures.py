"""Figures of the synthetic experiments."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor, arange, stack

from torchsims.synthetic.fronts import METHODS as FAN_METHODS
from torchsims.synthetic.methods import METHODS
from torchsims.synthetic.outcomes import Outcome
from torchsims.synthetic.tables import variance_over_scales

START_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f5539")
FAN_EDGE = 0.15  # around a front, as a share of its range; points beyond are drawn at the edge
FLOOR = 1e-32  # zeros are drawn here on the logarithmic axis


def plot_trajectories(front: Tensor, outcomes: Mapping[str, Outcome], scales: Sequence[tuple[float, float]]) -> Figure:
    """Return one panel per method and scaling, each a row: the runs, by scaling, then by start, and the front."""
    figure = Figure(figsize=(2.6 * len(outcomes) + 0.6, 6.0), layout="constrained")
    axes = figure.subplots(len(scales), len(outcomes), sharex=True, sharey=True, squeeze=False)
    for column, (name, outcome) in enumerate(outcomes.items()):
        runs = arange(len(outcome.losses)).reshape(len(scales), -1).tolist()
        for axis, same_scale in zip(axes[:, column], runs, strict=True):
            _plot_runs(axis, front, outcome, same_scale)
        axes[0, column].set_title(METHODS[name].label)
        axes[-1, column].set_xlabel(r"$L_1$, unscaled")
    for axis, (first, second) in zip(axes[:, 0], scales, strict=True):
        axis.set_ylabel(f"scales {first:g} : {second:g}\n$L_2$, unscaled")
    marks = [
        Line2D([], [], color="0.65", linewidth=4, label="Pareto front"),
        Line2D([], [], color="black", marker="o", linestyle="none", label="start"),
        Line2D([], [], color="0.8", marker="*", markeredgecolor="black", markersize=11, linestyle="none", label="end"),
        Line2D([], [], color="none", marker="o", markeredgecolor="red", markersize=13, label="front not reached"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False)
    return figure


def _plot_runs(axis: Axes, front: Tensor, outcome: Outcome, runs: Sequence[int]) -> None:
    axis.plot(*front.T, color="0.65", linewidth=4, solid_capstyle="round", zorder=1)
    for i, run in enumerate(runs):
        colour = START_COLOURS[i % len(START_COLOURS)]
        axis.plot(*outcome.path[:, run].T, color=colour, linewidth=1.2, zorder=2)
        axis.plot(*outcome.path[0, run], "o", color="black", markersize=5, zorder=3)
        axis.plot(*outcome.losses[run], "*", color=colour, markeredgecolor="black", markersize=11, zorder=4)
        if not outcome.reached[run]:
            axis.plot(*outcome.losses[run], "o", color="none", markeredgecolor="red", markersize=15, zorder=5)
    axis.grid(alpha=0.2)


def plot_variance(outcomes: Mapping[str, Outcome], scales: int) -> Figure:
    """Return the variance over the scalings against the step, per method, on a linear and on a logarithmic axis."""
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, outcome in outcomes.items():
        curve = variance_over_scales(outcome.path, scales).mean(-1)
        steps, method = outcome.record_every * arange(len(curve)), METHODS[name]
        for axis, values in ((left, curve), (right, curve.clamp(min=FLOOR))):
            axis.plot(steps.numpy(), values.numpy(), method.dashes, color=method.colour, label=method.label)
    right.set_yscale("log")
    for axis, title in ((left, "linear"), (right, "logarithmic")):
        axis.set(title=title, xlabel="step", ylabel="variance over rescalings")
        axis.grid(alpha=0.2)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def plot_fans(fronts: Mapping[str, Tensor], ends: Mapping[tuple[str, str], Tensor]) -> Figure:
    """Return one panel per problem and method: the front, and the points from the first start in both scalings."""
    methods = list(dict.fromkeys(method for _, method in ends))
    figure = Figure(figsize=(1.5 * len(methods) + 0.7, 1.5 * len(fronts) + 0.8), layout="constrained")
    axes = figure.subplots(len(fronts), len(methods), squeeze=False)
    for row, (problem, front) in zip(axes, fronts.items(), strict=True):
        low, high = front.amin(0), front.amax(0)
        edge = FAN_EDGE * (high - low)
        limits = dict(zip(("xlim", "ylim"), stack([low - edge, high + edge], -1).tolist(), strict=True))
        for axis, method in zip(row, methods, strict=True):
            plain, scaled = (same[0].clamp(low - edge / 2, high + edge / 2) for same in ends[problem, method])
            axis.plot(*front.T, ".", color="0.75", markersize=2, zorder=1)
            axis.plot(*plain.T, "o", color=START_COLOURS[0], markersize=5, zorder=2)
            axis.plot(*scaled.T, "x", color=START_COLOURS[1], markersize=5, zorder=3)
            axis.set(xticks=[], yticks=[], **limits)
        row[0].set_ylabel(f"{problem}\n$L_2$")
    for axis, method in zip(axes[0], methods, strict=True):
        axis.set_title(FAN_METHODS[method].label, fontsize="medium")
    for axis in axes[-1]:
        axis.set_xlabel("$L_1$")
    marks = [
        Line2D([], [], color="0.75", marker=".", linestyle="none", label="Pareto front"),
        Line2D([], [], color=START_COLOURS[0], marker="o", linestyle="none", label="losses as they are"),
        Line2D([], [], color=START_COLOURS[1], marker="x", linestyle="none", label="$L_1$ times 1000"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False)
    return figure


def plot_prox(
    values: Sequence[float], curves: tuple[Tensor, Tensor], paper: tuple[Mapping[float, float], Mapping[float, float]]
) -> Figure:
    """Return two curves over the proximal weights, mean first step and mean rank, beside the paper's numbers."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    places = range(len(values))
    labels = ("mean first step with $r_k < 0.1$", "mean rank of the distance to the front")
    for axis, label, curve, printed in zip(figure.subplots(1, 2), labels, curves, paper, strict=True):
        axis.plot(places, curve, "o-", color="#d55e00", label="here")
        known = [(i, printed[value]) for i, value in enumerate(values) if value in printed]
        if known:
            axis.plot(*zip(*known, strict=True), "s--", color="0.5", label="paper")
        axis.set_xticks(places, [f"{value:g}" for value in values])
        axis.set(xlabel=r"$\lambda$", ylabel=label)
        axis.grid(alpha=0.2)
        axis.legend(frameon=False)
    figure.axes[0].set_yscale("log")
    return figure


def plot_rules(names: Sequence[str], bars: tuple[Tensor, Tensor], *, grey: int) -> Figure:
    """Return bars of the mean first step and the mean rank per rule, the first ``grey`` ones in grey."""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    colours = ["0.6"] * grey + ["#d55e00"] * (len(names) - grey)
    labels = ("mean first step with $r_k < 0.1$", "mean rank, 1 is best")
    for axis, label, values in zip((left, right), labels, bars, strict=True):
        axis.barh(range(len(names)), values.numpy(), color=colours)
        for place, value in enumerate(values.tolist()):
            axis.annotate(f"{value:.3g}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        axis.set_xlabel(label)
        axis.margins(x=0.12)
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    return figure
