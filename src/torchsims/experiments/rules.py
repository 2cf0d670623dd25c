r"""Rules that choose the proximal weight at every step: the question the paper leaves open. Not in the paper.

    torchsims reproduce rules --out runs/rules

The runs of `reproduce prox`, with fixed values of lambda and with rules. The saddle *repels* the model from the
challenger, lambda (theta - theta'), and attracts the challenger to the model. "Attract" turns the repulsion round,
which is no longer the saddle of h; "turn" repels until r_k < 0.1 and attracts from then on. "Fading" multiplies by
0.999 every step. r_k is the norm of the gradients that are followed, the rule's own forces included.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.optim import SGD

from torchsims.experiments._checks import check_names, check_points, check_positive
from torchsims.experiments._runs import Outcome, Saddle, run_rows
from torchsims.experiments.prox import INNER_RATE, OUTER_RATE, PROBLEMS, SETTLE, ranks, rounding
from torchsims.problems import F1
from torchsims.reporting import Progress, Report, Row

__all__ = ["Settings", "run"]

FADE = 0.999

# Whether r_k was below 0.1 at any step so far, the number of the step, r_k at the last step: forces on challenger and
# model, as multiples of the difference between them; a negative one attracts the model.
Forces = Callable[[Tensor, int, Tensor], tuple[Tensor | float, Tensor | float]]


def _both(force: Tensor | float, sign: float = 1.0) -> tuple[Tensor | float, Tensor | float]:
    return force, sign * force


RULES: dict[str, Forces] = {
    "lambda 0": lambda settled, step, r: _both(0.0),
    "lambda 1e-4": lambda settled, step, r: _both(1e-4),
    "lambda 1e-3": lambda settled, step, r: _both(1e-3),
    "lambda 1e-2": lambda settled, step, r: _both(1e-2),
    "lambda 1e-1": lambda settled, step, r: _both(1e-1),
    "decay 0.1, 0.95": lambda settled, step, r: _both(0.1 * 0.95**step),
    "decay 0.1, 0.99": lambda settled, step, r: _both(0.1 * 0.99**step),
    "proportional 0.1 r_k": lambda settled, step, r: _both(0.1 * r.clamp(max=1)),
    "release 0.1": lambda settled, step, r: _both(0.1 * (~settled)),
    "challenger only 0.1": lambda settled, step, r: (0.1, 0.0),
    "attract 0.1": lambda settled, step, r: _both(0.1, -1.0),
    "attract 0.2": lambda settled, step, r: _both(0.2, -1.0),
    "attract 1, fading": lambda settled, step, r: _both(FADE**step, -1.0),
    "turn 0.1 to 0.1": lambda settled, step, r: (0.1, 0.1 - 0.2 * settled),
    "turn 0.1 to 1, fading": lambda settled, step, r: (
        torch.where(settled, FADE**step, 0.1),
        torch.where(settled, -(FADE**step), 0.1),
    ),
}
FIXED = [name for name in RULES if name.startswith("lambda")]


@dataclass(frozen=True)
class Settings:
    """What can be chosen."""

    problems: tuple[str, ...] = tuple(PROBLEMS)
    starts: tuple[tuple[float, ...], ...] = tuple(tuple(start) for start in F1().starts.tolist())
    tau: float = 1.0
    steps: int = 20_000
    compiled: bool = True

    def __post_init__(self) -> None:
        check_names("problems", self.problems, PROBLEMS)
        check_points("starts", self.starts)
        check_positive("tau", self.tau)
        check_positive("steps", self.steps)


def run(settings: Settings, progress: Progress) -> Report:
    """Run all problems, starts and rules."""
    cases = [_cases(name, settings, progress) for name in settings.problems]
    settled, then, ratio, rank = (torch.cat(column) for column in zip(*cases, strict=True))  # each (case, rule)
    rows: list[Row] = [
        {
            "rule": name,
            "mean_first_step": float(settled[:, i].mean()),
            "median_distance_then": float(then[:, i].nanmedian()),
            "mean_rank": float(rank[:, i].mean()),
            "as_close_as_0": int((ratio[:, i] <= 1).sum()),
            "of": len(ratio),
            "worst_ratio_to_0": float(ratio[:, i].max()),
        }
        for i, name in enumerate(RULES)
    ]
    return Report(
        title="Rules for the proximal weight",
        command="torchsims reproduce rules",
        settings=asdict(settings) | {"outer_rate": OUTER_RATE, "inner_rate": INNER_RATE, "settle": SETTLE},
        rows=rows,
        figures={"rules": _figure(settled.mean(0), rank.mean(0))},
        notes=[
            "Means over problems and starts: the first step with r_k below 0.1, the distance to the front then, the "
            "rank of the final distance among the five fixed values (1 is at least as near as all of them).",
            "In how many cases it ends as close as lambda = 0, and the largest ratio of the two final distances.",
        ],
    )


class _Rules:
    """All rules side by side: the rows of a start are one block, one row a rule."""

    def __init__(self, starts: int) -> None:
        self._settled = torch.zeros(starts, len(RULES), dtype=torch.bool)

    def __call__(self, step: int, residual: Tensor) -> tuple[Tensor, Tensor]:
        r = residual.reshape(self._settled.shape)
        self._settled |= r < SETTLE
        prox, force = torch.empty_like(r), torch.empty_like(r)
        for i, forces in enumerate(RULES.values()):
            prox[:, i], force[:, i] = forces(self._settled[:, i], step, r[:, i])
        return prox.flatten(), (prox - force).flatten()


def _cases(name: str, settings: Settings, progress: Progress) -> tuple[Tensor, ...]:
    """Return first steps, distances then, final distances over those of lambda = 0, ranks, each `start x rule`."""
    problem = PROBLEMS[name]()
    starts = torch.tensor(settings.starts, dtype=torch.float64)
    shape = (len(starts), len(RULES))
    outcome: Outcome = run_rows(
        problem,
        Saddle(tau=settings.tau, inner_rate=INNER_RATE, rule=_Rules(len(starts))),
        starts.repeat_interleave(len(RULES), 0),
        steps=settings.steps,
        rate=OUTER_RATE,
        optimizer=SGD,
        settle=SETTLE,
        every=settings.steps,
        compiled=settings.compiled,
        progress=progress(name.upper(), settings.steps + 1),
    )
    settled = outcome.settled.reshape(shape).double()
    final = outcome.distance.reshape(shape)
    fixed = final[:, : len(FIXED)]
    slack = rounding(problem)
    rank = [ranks(torch.cat([final[:, i : i + 1], fixed], -1), slack)[:, 0] for i in range(len(RULES))]
    return (
        settled.where(settled >= 0, float(settings.steps)),  # a run that never settles counts as all its steps
        problem.distance(outcome.settled_losses).reshape(shape),
        final / (fixed[:, :1] + slack),
        torch.stack(rank, -1).double(),
    )


def _figure(first: Tensor, rank: Tensor) -> Figure:
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(RULES))
    colours = ["0.6" if name in FIXED else "#d55e00" for name in RULES]
    for axis, values, label in (
        (left, first, "mean first step with $r_k < 0.1$"),
        (right, rank, "mean rank, 1 is best"),
    ):
        axis.barh(places, values.numpy(), color=colours)
        for place, value in zip(places, values.tolist(), strict=True):
            axis.annotate(f"{value:.3g}", (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8)
        axis.set_xlabel(label)
        axis.margins(x=0.12)
    left.set_yticks(places, list(RULES))
    left.invert_yaxis()
    return figure
