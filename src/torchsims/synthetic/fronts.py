"""Methods that take a preference, on problems that know their front: where a fan of preferences ends."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsims.metrics import hypervolume
from torchsims.problems import ZDT1, ZDT2, ZDT3, Problem, Toy, TwoPoints
from torchsims.reporting import Row
from torchsims.scalarizations import EW, PBI, STCH, LogMerit, Scalarization
from torchsims.synthetic.cosmos import run_cosmos
from torchsims.synthetic.rows import Saddle, run_rows

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "zdt1": ZDT1,
    "zdt2": ZDT2,
    "zdt3": ZDT3,
    "floor 0.5": lambda: TwoPoints(shift=0.5),
    "floor 0.05": lambda: TwoPoints(shift=0.05),
    "floor 0.005": lambda: TwoPoints(shift=0.005),
    "toy": Toy,
}
SCALES = ((1.0, 1.0), (1000.0, 1.0))
"""The losses as they are, and the first one times 1000."""
TASKS = ("first", "second")
LR, SPEED = 0.01, 2.0  # learning rate of Adam, and how much larger that of the challenger is
EPOCH = 100  # steps between two calls of `end_epoch`, for the nadir of normalised STCH
MARGIN = 0.1  # of the reference point beyond the front, as a share of its range
TOLERANCE = 1e-3  # a loss that is larger by less than this share of the range of the front is not larger
FIXED = {"rate": LR, "challenger": SPEED, "scales": SCALES, "tolerance": TOLERANCE}
"""What the page says about settings that cannot be chosen."""


class Runs(NamedTuple):
    """Runs that advance as one tensor."""

    starts: Tensor  # `run x d`
    scale: Tensor  # factors of the losses, `run x 2`
    preference: Tensor  # `run x 2`

    def scalarized(self, problem: Problem, method: Scalarization, steps: int) -> Tensor:
        """Return where a loss-level method ends, `run x 2`."""
        outcome = run_rows(problem, method, self.starts, scale=self.scale, steps=steps, lr=LR, epoch=EPOCH)
        return outcome.losses

    def by_task(self) -> dict[str, Any]:
        """Return the preferences as loss-level methods take them."""
        return {"preference": dict(zip(TASKS, self.preference.T, strict=True)), "tasks": TASKS}


class FrontMethod(NamedTuple):
    """A method as tables show it, and the losses at the end of all runs, given the temperature and the steps."""

    label: str
    run: Callable[[Problem, Runs, float, int], Tensor]


def _sims(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    saddle = Saddle(tau=tau, inner_lr=SPEED * LR, preference=runs.preference)
    return run_rows(problem, saddle, runs.starts, scale=runs.scale, steps=steps, lr=LR).losses


def _weighted(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    return Runs(runs.starts, runs.scale * runs.preference, runs.preference).scalarized(problem, EW(), steps)


def _log_merit(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    return runs.scalarized(problem, LogMerit(tau, **runs.by_task()), steps)


def _stch(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    return runs.scalarized(problem, STCH(tau, **runs.by_task()), steps)


def _stch_normalized(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    return runs.scalarized(problem, STCH(tau, normalize=True, **runs.by_task()), steps)


def _pbi(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    return runs.scalarized(problem, PBI(**runs.by_task()), steps)


def _cosmos(problem: Problem, runs: Runs, tau: float, steps: int) -> Tensor:
    """One model for all preferences: of a start and a scaling, which follow each other."""
    points = len(set(map(tuple, runs.preference.tolist())))
    inverse = 1 / runs.preference[:points]  # a preferred task has a small loss
    rays = inverse / inverse.sum(-1, keepdim=True)
    return run_cosmos(problem, runs.starts[::points], rays, runs.scale[::points], steps=steps, lr=LR).flatten(0, 1)


METHODS = {
    "sims": FrontMethod("SIMS", _sims),
    "logmerit": FrontMethod("LogMerit", _log_merit),
    "ew": FrontMethod("weighted EW", _weighted),
    "stch": FrontMethod("STCH", _stch),
    "stch-normalized": FrontMethod("STCH, normalised", _stch_normalized),
    "pbi": FrontMethod("PBI", _pbi),
    "cosmos": FrontMethod("COSMOS", _cosmos),
}


def fan(points: int, spread: float) -> Tensor:
    """Return preferences from the first task to the second, in equal ratios, `point x 2`.

    Example:
        >>> fan(3, 4.0)
        tensor([[2.0000, 0.5000],
                [1.0000, 1.0000],
                [0.5000, 2.0000]], dtype=torch.float64)
    """
    exponents = torch.linspace(0.5, -0.5, points, dtype=torch.float64)
    return spread ** torch.stack([exponents, -exponents], -1)


def run_fan(problem: Problem, name: str, preferences: Tensor, *, tau: float, steps: int) -> Tensor:
    """Return the unscaled losses at the end of all runs, `scaling x start x point x 2`."""
    scales, starts, points = len(SCALES), len(problem.starts), len(preferences)
    factors = torch.tensor(SCALES, dtype=torch.float64).repeat_interleave(starts * points, 0)
    each = problem.starts.repeat(scales, 1).repeat_interleave(points, 0)
    runs = Runs(each, factors, preferences.repeat(scales * starts, 1))
    return METHODS[name].run(problem, runs, tau, steps).reshape(scales, starts, points, 2)


def fan_row(problem: str, method: str, front: Tensor, ends: Tensor) -> Row:
    """Return how good the ends of a method are, `scaling x start x point x 2`: the row of a table.

    - ``volume``: hypervolume of the points from one start over that of the front, mean over the starts; the reference
      point is a tenth of the range beyond the front. ``volume x1000``: the same with the first loss times 1000.
    - ``reversed``: pairs of neighbouring preferences where more of it for a task ends with a larger loss of that
      task, over starts and tasks, with the losses as they are.
    - ``moved``: how far the points are from those with the first loss times 1000, at most, in ranges of the front.
    """
    low, high = front.amin(0), front.amax(0)
    reference = (high + MARGIN * (high - low)).tolist()
    full = hypervolume(front.numpy(), reference)
    volumes = [[hypervolume(points.numpy(), reference) / full for points in same] for same in ends]
    relative = (ends - low) / (high - low)
    steps = [b - a for a, b in pairwise(relative[0].unbind(1))]  # less preference for the first, more for the second
    wrong = sum(int((-d[:, 0] > TOLERANCE).sum() + (d[:, 1] > TOLERANCE).sum()) for d in steps)
    return {
        "problem": problem,
        "method": METHODS[method].label,
        "volume": sum(volumes[0]) / len(volumes[0]),
        "volume x1000": sum(volumes[1]) / len(volumes[1]),
        "reversed": wrong,
        "of": 2 * len(steps) * ends.shape[1],
        "moved": float((relative[0] - relative[1]).abs().amax()),
    }
