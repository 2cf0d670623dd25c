"""The base class of analytic problems."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor


class Problem(ABC):
    """A problem with two losses that declares its starts and its Pareto front.

    To write a problem, define :meth:`losses` and :meth:`front` and set the class attributes; the shared test covers it
    once it is in ``problems.__all__``. Losses are positive, so that their logarithms exist.
    """

    dimension: ClassVar[int]  # d, the number of coordinates of a point
    tasks: ClassVar[int] = 2  # m, the number of losses

    @property
    @abstractmethod
    def starts(self) -> Tensor:
        """Return the points from which runs start, `n x d`, in double precision."""

    @abstractmethod
    def losses(self, points: Tensor) -> Tensor:
        """Return the losses, `... x m`, of ``points``, `... x d`."""

    @abstractmethod
    def front(self) -> Tensor:
        """Return losses along the Pareto front, `k x m`, in double precision, by increasing first loss."""

    def distance(self, losses: Tensor) -> Tensor:
        """Return the Euclidean distance, `...`, of ``losses``, `... x m`, to the points of :meth:`front`."""
        flat = losses.reshape(-1, self.tasks)
        # Differences and not the expanded square: the distance to stop at is small beside the losses.
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(flat, self._front, compute_mode=mode).amin(-1).reshape(losses.shape[:-1])

    @cached_property
    def _front(self) -> Tensor:
        return self.front()


def non_dominated(losses: Tensor) -> Tensor:
    """Return the rows of ``losses``, `n x 2`, that no other row dominates, by increasing first loss."""
    by_second = losses[losses[:, 1].argsort(stable=True)]
    ordered = by_second[by_second[:, 0].argsort(stable=True)]
    best = ordered[:, 1].cummin(0).values
    keep = torch.ones(len(ordered), dtype=torch.bool, device=losses.device)
    keep[1:] = ordered[1:, 1] < best[:-1]
    return ordered[keep]
