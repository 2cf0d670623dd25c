r"""The paper's two tables on lambda: a larger one settles sooner, lambda = 0 ends nearest to the front.

    torchsims reproduce prox --out runs/prox

Bi-objective F1, F2, F11 (conditioning 1e6, no oscillation), four starts; plain gradient steps with rates 0.1 and 1.0
for model and challenger, tau = 1, 20 000 steps: the paper does not say its rates, and these show its trade-off.
r_k is the norm of both gradients of h together. The rank orders the values of lambda by the distance of the final
losses to the front; distances that differ by less than 1e-10 of the front are equal and share the better rank. The
median distance at the step that counts is beside it: a large lambda gets a small gradient by driving the model away,
not by bringing it near.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.optim import SGD

from torchsims.experiments._checks import check_names, check_not_empty, check_not_negative, check_points, check_positive
from torchsims.experiments._runs import Saddle, run_rows
from torchsims.problems import F1, F2, F11, Problem
from torchsims.reporting import Progress, Report, Row

__all__ = ["Settings", "run"]

PROBLEMS: dict[str, type[F1] | type[F2] | type[F11]] = {"f1": F1, "f2": F2, "f11": F11}
OUTER_RATE, INNER_RATE = 0.1, 1.0
SETTLE = 0.1
PAPER_STEPS = {0.0: 2463, 1e-4: 2526, 1e-3: 1385, 1e-2: 711, 1e-1: 198}
PAPER_RANK = {0.0: 1.750, 1e-4: 2.333, 1e-3: 2.917, 1e-2: 2.917, 1e-1: 2.833}
PAPER_F11_START = (-2.0, 2.0)
PAPER_F11 = {0.0: (98, 0.000453952), 1e-4: (97, 0.000637059), 1e-3: (95, 0.002296451)} | {
    1e-2: (15, 0.00230228),
    1e-1: (2, 0.004238246),
}


@dataclass(frozen=True)
class Settings:
    """What can be chosen."""

    problems: tuple[str, ...] = tuple(PROBLEMS)
    starts: tuple[tuple[float, ...], ...] = tuple(tuple(start) for start in F1().starts.tolist())
    values: tuple[float, ...] = tuple(PAPER_STEPS)
    tau: float = 1.0
    steps: int = 20_000
    compiled: bool = True

    def __post_init__(self) -> None:
        check_names("problems", self.problems, PROBLEMS)
        check_points("starts", self.starts)
        check_not_empty("values", self.values)
        check_not_negative("values", *self.values)
        check_positive("tau", self.tau)
        check_positive("steps", self.steps)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all problems, starts and values of lambda."""
    problems = {name: PROBLEMS[name]() for name in settings.problems}
    cases = {name: _cases(problem, settings, progress, name) for name, problem in problems.items()}
    columns = (torch.cat(column).double() for column in zip(*cases.values(), strict=True))
    settled, then, _, rank = columns  # each (case, lambda)
    # A run that never settles counts as all its steps.
    settled = settled.where(settled >= 0, float(settings.steps))
    rows: list[Row] = [
        {
            "prox": value,
            "mean_first_step": float(settled[:, i].mean()),
            "mean_rank": float(rank[:, i].mean()),
            "median_distance_then": float(then[:, i].nanmedian()),
            "paper_first_step": PAPER_STEPS.get(value),
            "paper_rank": PAPER_RANK.get(value),
        }
        for i, value in enumerate(settings.values)
    ]
    return Report(
        title="The proximal weight: how soon it settles, how near it ends",
        command="torchsims reproduce prox",
        settings=asdict(settings) | {"outer_rate": OUTER_RATE, "inner_rate": INNER_RATE, "settle": SETTLE},
        rows=rows,
        details={name.upper(): _details(name, settings, *case) for name, case in cases.items()},
        figures={"prox": _figure(settings, settled, rank)},
        notes=[
            "Means over problems and starts: first step with r_k below 0.1, rank of the final distance to the front.",
            "The paper does not state its rates; its values stand beside ours for the trend, not for the digits.",
        ],
    )


def _cases(problem: Problem, settings: Settings, progress: Progress, name: str) -> tuple[Tensor, ...]:
    """Return first steps, distances then, final distances and ranks, each `start x lambda`."""
    starts = torch.tensor(settings.starts, dtype=torch.float64)
    shape = (len(starts), len(settings.values))
    outcome = run_rows(
        problem,
        Saddle(
            tau=settings.tau,
            prox=torch.tensor(settings.values, dtype=torch.float64).repeat(len(starts)),
            inner_rate=INNER_RATE,
        ),
        starts.repeat_interleave(len(settings.values), 0),
        steps=settings.steps,
        rate=OUTER_RATE,
        optimizer=SGD,
        settle=SETTLE,
        every=settings.steps,
        compiled=settings.compiled,
        progress=progress(name.upper(), settings.steps + 1),
    )
    distance = outcome.distance.reshape(shape)
    then = problem.distance(outcome.settled_losses).reshape(shape)
    return outcome.settled.reshape(shape), then, distance, ranks(distance, rounding(problem))


def rounding(problem: Problem) -> float:
    """Return the difference below which two distances to the front are one: losses are sums as large as the front."""
    return 1e-10 * float(problem.front().max())


def ranks(distance: Tensor, slack: float) -> Tensor:
    """Return the rank of every entry within its row, 1 for the smallest; equal ones share the better rank."""
    return 1 + (distance.unsqueeze(-1) > distance.unsqueeze(-2) + slack).sum(-1)


def _details(name: str, settings: Settings, settled: Tensor, then: Tensor, distance: Tensor, rank: Tensor) -> list[Row]:
    rows: list[Row] = []
    for i, start in enumerate(settings.starts):
        for j, value in enumerate(settings.values):
            printed = name == "f11" and start == PAPER_F11_START and value in PAPER_F11
            paper = PAPER_F11[value] if printed else (None, None)
            rows.append(
                {
                    "start": list(start),
                    "prox": value,
                    "first_step": int(settled[i, j]) if settled[i, j] >= 0 else None,
                    "distance_then": float(then[i, j]),
                    "distance": float(distance[i, j]),
                    "rank": int(rank[i, j]),
                    "paper_first_step": paper[0],
                    "paper_distance": paper[1],
                }
            )
    return rows


def _figure(settings: Settings, settled: Tensor, rank: Tensor) -> Figure:
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    places = range(len(settings.values))
    curves: tuple[tuple[str, Tensor, Mapping[float, float]], ...] = (
        ("mean first step with $r_k < 0.1$", settled.mean(0), PAPER_STEPS),
        ("mean rank of the distance to the front", rank.mean(0), PAPER_RANK),
    )
    for axis, (label, ours, paper) in zip(figure.subplots(1, 2), curves, strict=True):
        axis.plot(places, ours, "o-", color="#d55e00", label="here")
        known = [(i, paper[value]) for i, value in enumerate(settings.values) if value in paper]
        if known:
            axis.plot(*zip(*known, strict=True), "s--", color="0.5", label="paper")
        axis.set_xticks(places, [f"{value:g}" for value in settings.values])
        axis.set_xlabel(r"$\lambda$")
        axis.set_ylabel(label)
        axis.grid(alpha=0.2)
        axis.legend(frameon=False)
    figure.axes[0].set_yscale("log")
    return figure
