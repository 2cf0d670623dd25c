"""Methods that take a preference, on problems that know their front: where a fan of preferences ends."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from torchsims.metrics import hypervolume
from torchsims.problems import ZDT1, ZDT2, ZDT3, Problem, Toy, TwoPoints
from torchsims.reporting import Row
from torchsims.scalarizations import PBI, STCH, FixedWeights, LogMerit, Scalarization
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


class FrontMethod(NamedTuple):
    """A method as tables show it, and how it is made from a preference and a temperature; None: not by preference."""

    label: str
    make: Callable[[dict[str, float], float], Scalarization] | None = None


METHODS = {
    "sims": FrontMethod("SIMS"),
    "logmerit": FrontMethod("LogMerit", lambda p, tau: LogMerit(tau, preference=p, tasks=TASKS)),
    "ew": FrontMethod("weighted EW", lambda p, tau: FixedWeights(p, TASKS)),
    "stch": FrontMethod("STCH", lambda p, tau: STCH(tau, preference=p, tasks=TASKS)),
    "stch-normalized": FrontMethod(
        "STCH, normalised", lambda p, tau: STCH(tau, normalize=True, preference=p, tasks=TASKS)
    ),
    "pbi": FrontMethod("PBI", lambda p, tau: PBI(preference=p, tasks=TASKS)),
    "cosmos": FrontMethod("COSMOS"),
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
    starts = problem.starts.repeat(len(SCALES), 1)  # by scaling, then by start
    scale = torch.tensor(SCALES, dtype=torch.float64).repeat_interleave(len(problem.starts), 0)
    shape = (len(SCALES), len(problem.starts), len(preferences), 2)
    make = METHODS[name].make
    if name == "cosmos":
        rays = (1 / preferences) / (1 / preferences).sum(-1, keepdim=True)  # a preferred task has a small loss
        return run_cosmos(problem, starts, rays, scale, steps=steps, lr=LR).reshape(shape)
    if make is None:
        k = len(preferences)
        saddle = Saddle(tau=tau, inner_lr=SPEED * LR, preference=preferences.repeat(len(starts), 1))
        starts, scale = starts.repeat_interleave(k, 0), scale.repeat_interleave(k, 0)
        return run_rows(problem, saddle, starts, scale=scale, steps=steps, lr=LR).losses.reshape(shape)
    ends = []
    for p in preferences.tolist():
        method = make(dict(zip(TASKS, p, strict=True)), tau)
        ends.append(run_rows(problem, method, starts, scale=scale, steps=steps, lr=LR, epoch=EPOCH).losses)
    return torch.stack(ends, 1).reshape(shape)


def fan_row(problem: str, method: str, front: Tensor, ends: Tensor) -> Row:
    """Return how good the ends of a method are, `scaling x start x point x 2`: the row of a table.

    - ``volume``: hypervolume of the points from one start over that of the front, mean over the starts; the reference
      point is a tenth of the range beyond the front. ``volume x1000``: the same with the first loss times 1000.
    - ``reversed``: neighbouring preferences of which the one for a task has the larger loss of it, over starts and
      tasks, with the losses as they are.
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
