r"""SIMS with fixed proximal weights, and with rules that choose the weight at every step, side by side.

Bi-objective F1, F2, F11 (conditioning 1e6, no oscillation); gradient descent with learning rates 0.1 and 1.0 of model
and challenger. The paper does not state its rates, and these show its trade-off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeAlias

import torch
from torch import Tensor
from torch.optim import SGD

from torchsims.problems import F1, F2, F11
from torchsims.reporting import Progress
from torchsims.synthetic.rows import Saddle, run_rows
from torchsims.synthetic.tables import table_rows

PROBLEMS: dict[str, type[F1] | type[F2] | type[F11]] = {"f1": F1, "f2": F2, "f11": F11}
OUTER_LR, INNER_LR = 0.1, 1.0
SETTLE_NORM = 0.1
FIXED = {"outer_rate": OUTER_LR, "inner_rate": INNER_LR, "settle": SETTLE_NORM}
"""What the page says about settings that cannot be chosen."""
FADE = 0.999
PAPER_F11_START = ("f11", (-2.0, 2.0))
PAPER_F11 = {
    0.0: (98, 0.000453952),
    1e-4: (97, 0.000637059),
    1e-3: (95, 0.002296451),
    1e-2: (15, 0.00230228),
    1e-1: (2, 0.004238246),
}
"""First step and final distance that the paper prints for one start of F11, by lambda."""

# From whether r_k was below 0.1 at any step so far, the number of the step, and r_k at the previous step: the forces on
# challenger and model, as multiples of the difference between them; a negative one attracts the model.
Forces: TypeAlias = Callable[[Tensor, int, Tensor], tuple[Tensor | float, Tensor | float]]


def _constant(prox: float, force: float, settled: Tensor, step: int, r: Tensor) -> tuple[float, float]:
    return prox, force


def _both(force: Tensor | float, sign: float = 1.0) -> tuple[Tensor | float, Tensor | float]:
    return force, sign * force


CONSTANT: dict[str, Forces] = {
    f"lambda {text}": partial(_constant, float(text), float(text)) for text in ("0", "1e-4", "1e-3", "1e-2", "1e-1")
}
"""The fixed values that rules are ranked against."""
RULES: dict[str, Forces] = CONSTANT | {
    "decay 0.1, 0.95": lambda settled, step, r: _both(0.1 * 0.95**step),
    "decay 0.1, 0.99": lambda settled, step, r: _both(0.1 * 0.99**step),
    "proportional 0.1 r_k": lambda settled, step, r: _both(0.1 * r.clamp(max=1)),
    "release 0.1": lambda settled, step, r: _both(0.1 * (~settled)),
    "challenger only 0.1": partial(_constant, 0.1, 0.0),
    "attract 0.1": partial(_constant, 0.1, -0.1),
    "attract 0.2": partial(_constant, 0.2, -0.2),
    "attract 1, fading": lambda settled, step, r: _both(FADE**step, -1.0),
    "turn 0.1 to 0.1": lambda settled, step, r: (0.1, 0.1 - 0.2 * settled),
    "turn 0.1 to 1, fading": lambda settled, step, r: (
        torch.where(settled, FADE**step, 0.1),
        torch.where(settled, -(FADE**step), 0.1),
    ),
}


class Rules:
    """All rules side by side, as the ``rule`` of a :class:`~torchsims.synthetic.Saddle`.

    The rows of each of the ``starts`` are one block with one row per rule.
    """

    def __init__(self, starts: int) -> None:
        self._settled = torch.zeros(starts, len(RULES), dtype=torch.bool)

    def __call__(self, step: int, gradient_norm: Tensor) -> tuple[Tensor, Tensor]:
        r = gradient_norm.reshape(self._settled.shape)
        self._settled |= r < SETTLE_NORM
        prox, force = torch.empty_like(r), torch.empty_like(r)
        for i, forces in enumerate(RULES.values()):
            prox[:, i], force[:, i] = forces(self._settled[:, i], step, r[:, i])
        return prox.flatten(), (prox - force).flatten()


@dataclass(frozen=True, eq=False)
class Settling:
    """How soon runs settle and how near to the front they end, each `start x column`."""

    settled: Tensor  # whether the gradient norm r_k was ever below 0.1
    first_step: Tensor  # first step at which it was; all steps if never
    distance_then: Tensor  # distance to the front at that step, NaN if never
    distance: Tensor  # distance to the front at the end
    tolerance: float  # difference below which two distances are equal: losses are sums as large as the front

    def rank(self, among: int | None = None) -> Tensor:
        """Return the rank of every final distance among those of the first columns, all by default: 1 is the smallest.

        Example:
            >>> nothing, distance = torch.zeros(1, 3), torch.tensor([[0.2, 0.1, 0.2]])
            >>> Settling(nothing > 0, nothing, nothing, distance, tolerance=1e-9).rank()
            tensor([[2., 1., 2.]], dtype=torch.float64)
        """
        others = self.distance[:, :among]
        return 1 + (self.distance.unsqueeze(-1) > others.unsqueeze(-2) + self.tolerance).double().sum(-1)


def run_saddle(
    name: str,
    saddle: Saddle,
    starts: Sequence[Sequence[float]],
    *,
    columns: int,
    steps: int,
    compiled: bool,
    progress: Progress,
) -> Settling:
    """Run a saddle on the problem ``name``, with ``columns`` rows per start."""
    problem = PROBLEMS[name]()
    outcome = run_rows(
        problem,
        saddle,
        torch.tensor(starts, dtype=torch.float64).repeat_interleave(columns, 0),
        steps=steps,
        lr=OUTER_LR,
        optimizer=SGD,
        settle_norm=SETTLE_NORM,
        record_every=steps,
        compiled=compiled,
        progress=progress(name.upper(), steps + 1),
    )
    settled = outcome.settled >= 0
    shape = (len(starts), columns)
    return Settling(
        settled=settled.reshape(shape),
        first_step=outcome.settled.where(settled, steps).double().reshape(shape),
        distance_then=problem.distance(outcome.settled_losses).reshape(shape),
        distance=outcome.distance.reshape(shape),
        tolerance=1e-10 * float(problem.front().max()),
    )


def prox_details(
    problem: str, starts: Sequence[tuple[float, ...]], values: Sequence[float], settling: Settling
) -> list[dict[str, object]]:
    """Return one row per start and value of lambda, beside what the paper prints for one start of F11."""
    cases = list(product(starts, values))
    printed = [PAPER_F11.get(value) if (problem, start) == PAPER_F11_START else None for start, value in cases]
    first_step = zip(settling.settled.flatten().tolist(), settling.first_step.flatten().tolist(), strict=True)
    return table_rows(
        start=[list(start) for start, _ in cases],
        prox=[value for _, value in cases],
        first_step=[int(step) if settled else None for settled, step in first_step],
        distance_then=settling.distance_then.flatten(),
        distance=settling.distance.flatten(),
        rank=settling.rank().long().flatten(),
        paper_first_step=[paper and paper[0] for paper in printed],
        paper_distance=[paper and paper[1] for paper in printed],
    )
