"""Fig. 1 of the paper: who depends on the scale of the losses, and who reaches the front.

    torchsims reproduce trajectories --out runs/trajectories

Five methods, or those after `--methods`, both scalings 1 : 0.1 and 0.1 : 1, five starts; Adam with rate 1e-3 for both
copies, at most 35 000 steps, stop at 0.05 of the front. The distance is measured in unscaled losses, so that the stop
does not depend on the scaling.
"""

from dataclasses import asdict, dataclass
from typing import Literal

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torchsims.experiments._checks import check_names, check_points, check_positive
from torchsims.experiments._runs import Outcome, run_rows
from torchsims.experiments._toy_methods import FOOPS_TAU, LABELS, METHODS, PASSES, PERTURB, STCH_MU, offset
from torchsims.problems import Toy
from torchsims.reporting import Progress, Report

__all__ = ["Settings", "run"]

SCALES = ((1.0, 0.1), (0.1, 1.0))
RATE = 1e-3
STOP = 0.05
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f5539")


@dataclass(frozen=True)
class Settings:
    """What can be chosen; the temperature is that of SIMS."""

    methods: tuple[str, ...] = ("ew", "gls", "stch", "foops", "sims")
    starts: tuple[tuple[float, ...], ...] = tuple(tuple(start) for start in Toy().starts.tolist())
    variant: Literal["paper", "cited"] = "paper"
    tau: float = 0.015
    seed: int = 0
    steps: int = 35_000
    compiled: bool = True

    def __post_init__(self) -> None:
        check_names("methods", self.methods, METHODS)
        check_points("starts", self.starts)
        check_positive("tau", self.tau)
        check_positive("steps", self.steps)
        Toy(self.variant)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all methods from all starts under both scalings."""
    problem = Toy(settings.variant)
    runs = [(scale, start) for scale in SCALES for start in settings.starts]
    outcomes = {
        name: run_rows(
            problem,
            METHODS[name](settings.tau, offset(settings.seed)),
            torch.tensor([start for _, start in runs], dtype=torch.float64),
            scale=torch.tensor([scale for scale, _ in runs], dtype=torch.float64),
            steps=settings.steps,
            rate=RATE,
            stop=STOP,
            every=25,
            compiled=settings.compiled,
            progress=progress(LABELS[name], settings.steps + 1),
        )
        for name in settings.methods
    }
    rows = [
        {
            "method": LABELS[name],
            "passes": PASSES[name],
            "scale": list(scale),
            "start": list(start),
            "end": outcome.losses[i].tolist(),
            "steps": int(outcome.steps[i]),
            "distance": float(outcome.distance[i]),
            "reached": bool(outcome.reached[i]),
        }
        for name, outcome in outcomes.items()
        for i, (scale, start) in enumerate(runs)
    ]
    summary = [
        {
            "method": LABELS[name],
            "passes": PASSES[name],
            "reached": int(outcome.reached.sum()),
            "of": len(runs),
            "gap_between_scalings": float((first - second).abs().amax()),
        }
        for name, outcome in outcomes.items()
        for first, second in [outcome.losses.reshape(2, -1, 2)]
    ]
    fixed = {"rate": RATE, "stop": STOP, "perturb": PERTURB, "stch_mu": STCH_MU, "foops_tau": FOOPS_TAU}
    return Report(
        title="Trajectories under two scalings of the losses",
        command="torchsims reproduce trajectories",
        settings=asdict(settings) | fixed,
        rows=rows,
        details={"Summary": summary},
        figures={"trajectories": _figure(problem, outcomes, len(settings.starts))},
        notes=[
            "Front grey, starts black, ends as stars; a red ring marks a run that did not reach the front.",
            "The gap is the largest difference between the ends of the two scalings, over starts and losses.",
            "Passes are those of a step, forward + backward.",
        ],
    )


def _figure(problem: Toy, outcomes: dict[str, Outcome], starts: int) -> Figure:
    front = problem.front()
    figure = Figure(figsize=(2.6 * len(outcomes) + 0.6, 6.0), layout="constrained")
    axes = figure.subplots(len(SCALES), len(outcomes), sharex=True, sharey=True, squeeze=False)
    for column, (name, outcome) in enumerate(outcomes.items()):
        for row, (first, second) in enumerate(SCALES):
            axis = axes[row, column]
            axis.plot(*front.T, color="0.65", linewidth=4, solid_capstyle="round", zorder=1)
            for i in range(starts):
                at = row * starts + i
                colour = COLOURS[i % len(COLOURS)]
                axis.plot(*outcome.path[:, at].T, color=colour, linewidth=1.2, zorder=2)
                axis.plot(*outcome.path[0, at], "o", color="black", markersize=5, zorder=3)
                axis.plot(*outcome.losses[at], "*", color=colour, markeredgecolor="black", markersize=11, zorder=4)
                if not outcome.reached[at]:
                    axis.plot(*outcome.losses[at], "o", color="none", markeredgecolor="red", markersize=15, zorder=5)
            if row == 0:
                axis.set_title(LABELS[name])
            else:
                axis.set_xlabel(r"$L_1$, unscaled")
            if column == 0:
                axis.set_ylabel(f"scales {first:g} : {second:g}\n$L_2$, unscaled")
            axis.grid(alpha=0.2)
    marks = [
        Line2D([], [], color="0.65", linewidth=4, label="Pareto front"),
        Line2D([], [], color="black", marker="o", linestyle="none", label="start"),
        Line2D([], [], color="0.8", marker="*", markeredgecolor="black", markersize=11, linestyle="none", label="end"),
        Line2D([], [], color="none", marker="o", markeredgecolor="red", markersize=13, label="front not reached"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), frameon=False)
    return figure
