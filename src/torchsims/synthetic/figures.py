"""Figures of the synthetic experiments."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor, arange

from torchsims.synthetic.methods import LABELS
from torchsims.synthetic.outcomes import Outcome
from torchsims.synthetic.tables import variance_over_scales

__all__ = ["plot_prox", "plot_rules", "plot_trajectories", "plot_variance"]

START_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f5539")
METHOD_COLOURS = {
    "ew": "#0072b2",
    "gls": "#009e73",
    "stch": "#cc79a7",
    "foops": "#e69f00",
    "foops-perturbed": "#7f5539",
    "sims": "#d55e00",
    "mgda": "#56b4e9",
    "pcgrad": "#332288",
    "cagrad": "#117733",
    "nashmtl": "#882255",
    "fairgrad": "#999933",
    "gradnorm": "#000000",
    "dbmtl": "#aa4499",
}
DASHES = {"foops": "--", "foops-perturbed": ":", "fairgrad": "--"}  # FOOPS lies on EW, FairGrad on Nash-MTL
FLOOR = 1e-32  # zeros are drawn here on the logarithmic axis


def plot_trajectories(front: Tensor, outcomes: Mapping[str, Outcome], scales: Sequence[tuple[float, float]]) -> Figure:
    """Return one panel per method and scaling: the runs from all starts, and the front.

    Args:
        front: losses along the Pareto front, `k x 2`.
        outcomes: by name of the method; runs by scaling, then by start.
        scales: factors of the two losses, one row of panels each.
    """
    figure = Figure(figsize=(2.6 * len(outcomes) + 0.6, 6.0), layout="constrained")
    axes = figure.subplots(len(scales), len(outcomes), sharex=True, sharey=True, squeeze=False)
    for column, (name, outcome) in enumerate(outcomes.items()):
        runs = arange(len(outcome.losses)).reshape(len(scales), -1).tolist()
        for axis, same_scale in zip(axes[:, column], runs, strict=True):
            _plot_runs(axis, front, outcome, same_scale)
        axes[0, column].set_title(LABELS[name])
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
        steps = outcome.record_every * arange(len(curve))
        for axis, values in ((left, curve), (right, curve.clamp(min=FLOOR))):
            style = {"color": METHOD_COLOURS[name], "label": LABELS[name]}
            axis.plot(steps.numpy(), values.numpy(), DASHES.get(name, "-"), **style)
    right.set_yscale("log")
    for axis, title in ((left, "linear"), (right, "logarithmic")):
        axis.set(title=title, xlabel="step", ylabel="variance over rescalings")
        axis.grid(alpha=0.2)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def plot_prox(
    values: Sequence[float], curves: tuple[Tensor, Tensor], paper: tuple[Mapping[float, float], Mapping[float, float]]
) -> Figure:
    """Return the mean first step and the mean rank over the proximal weights.

    Args:
        values: proximal weights.
        curves: mean first step and mean rank, one number per weight.
        paper: the paper's numbers by weight.
    """
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
    """Return the mean first step and the mean rank per rule, with the number beside each bar.

    Args:
        names: names of the rules.
        bars: mean first step and mean rank, one number per rule.
        grey: number of rules drawn in grey, the first ones.
    """
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
