"""Trained models as points, one coordinate per task: the balanced one, and preferences that were not met."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from torchsims.metrics import non_dominated
from torchsims.training import Run

ROUNDING = 1e-6  # a loss that is larger by less than this share of itself is not larger


def to_minimise(runs: Sequence[Run], tasks: Sequence[str], split: str = "test") -> NDArray[np.float64]:
    """Return the first metric of every task, `run x task`, negative where higher is better; NaN of runs that failed.

    Args:
        runs: finished runs, or runs that failed.
        tasks: names of the tasks.
        split: ``"test"``, ``"val"`` for the validation split at the epoch of the model, or ``"train"`` for the mean
            training losses of the last epoch, in the units of the data.

    Example:
        >>> from torchsims.training import RunConfig
        >>> run = Run("a", RunConfig(), {"x": {"r2": 0.9}, "y": {"mae": 2.0}}, {"x": {"r2": True}, "y": {"mae": False}})
        >>> to_minimise([run], ["x", "y"])
        array([[-0.9,  2. ]])
    """
    return np.array([[_coordinate(run, task, split) for task in tasks] for run in runs])


def _coordinate(run: Run, task: str, split: str) -> float:
    if split == "train":
        return run.history.losses.get(task, [nan])[-1]
    metric, up = next(iter(run.higher_is_better[task].items()))
    curve = run.history.validation.get(task, {}).get(metric, [])
    value = run.metrics[task][metric] if split == "test" else curve[run.selected - 1] if curve else nan
    return -value if up else value


def find_balanced(points: ArrayLike) -> int:
    r"""Return the number of the most balanced point, from 0: no task is far from its best.

    .. math::
        \arg\min_k \max_i \frac{x_{ki} - a_i}{b_i - a_i}

    - :math:`x`: ``points``, `n x m`, of which less is better in every coordinate; a point with a NaN is left out.
    - :math:`a, b`: best and worst of every coordinate over the points that no other one dominates.

    Only these are candidates. Of points that are equally far, the one with the smaller sum is taken, and then the
    first. A coordinate that is the same everywhere does not count. No unit of any coordinate changes the answer.

    Example:
        >>> find_balanced([[0.0, 900.0], [0.4, 400.0], [1.0, 100.0]])
        1
    """
    found = np.asarray(points, dtype=float)
    front = np.flatnonzero(non_dominated(found))
    if not len(front):
        raise ValueError("A point should have a number in every coordinate. Found none that has.")
    best, worst = found[front].min(0), found[front].max(0)
    gaps = (found[front] - best) / np.where(worst > best, worst - best, 1.0)
    keys = [(round(float(row.max()), 9), round(float(row.sum()), 9)) for row in gaps]
    return int(front[min(range(len(front)), key=lambda k: keys[k])])


def find_reversals(preferences: Sequence[Mapping[str, float]], losses: ArrayLike) -> tuple[list[tuple[int, int]], int]:
    """Return pairs of points where more preference for a task went with more of its loss, and how many were compared.

    Compared are the points that differ, up to a common factor, in the preference of one task alone: what theory makes a
    statement on. Of two tasks these are all pairs, once for each task.

    Args:
        preferences: by task, one per point; the tasks in the order of the losses.
        losses: `point x task`; a point with a NaN is left out.

    Example:
        >>> find_reversals([{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 1.0}], [[0.3, 0.5], [0.2, 0.6]])
        ([(0, 1), (1, 0)], 2)
    """
    logs = np.log([list(each.values()) for each in preferences])
    found = np.asarray(losses, dtype=float)
    known = np.flatnonzero(~np.isnan(found).any(1))
    reversed_, compared = [], 0
    for i, j in permutations(known.tolist(), 2):
        step = logs[j] - logs[i]
        for task in range(found.shape[1]):
            others = np.delete(step, task)
            if np.ptp(others) > ROUNDING or step[task] <= others[0] + ROUNDING:
                continue
            compared += 1
            if found[j, task] > found[i, task] + ROUNDING * abs(found[i, task]):
                reversed_.append((i, j))
    return reversed_, compared
