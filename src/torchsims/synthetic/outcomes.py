"""What is recorded of many runs at once: when each reached the front, where it ended, and the way there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from torchsims.problems import Problem


class Snapshot(NamedTuple):
    """All runs before one step."""

    points: Tensor  # `runs x d`
    losses: Tensor  # unscaled, `runs x m`
    gradient_norm: Tensor  # of all gradients, or of the direction that a gradient-level method follows, `runs`


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where every run ended, and the way there."""

    steps: Tensor  # updates until the run reached the front, or all of them, `runs`
    reached: Tensor  # whether the run came closer to the front than asked, `runs`
    points: Tensor  # final points, `runs x d`
    losses: Tensor  # unscaled losses of the final points, `runs x m`
    distance: Tensor  # distance of these losses to the front, `runs`
    settled: Tensor  # first step at which the gradient norm was below the threshold, -1 if never, `runs`
    settled_losses: Tensor  # unscaled losses at that step, NaN if never, `runs x m`
    path: Tensor  # unscaled losses at every ``record_every``-th step, `k x runs x m`; constant after reaching the front
    record_every: int


class Recorder:
    """Records the snapshots of all runs, chunk by chunk; its arguments are those of ``run_rows``."""

    def __init__(
        self, problem: Problem, starts: Tensor, *, stop_distance: float | None, settle_norm: float, record_every: int
    ) -> None:
        runs = len(starts)
        self._problem = problem
        self._stop_distance, self._settle_norm, self._record_every = stop_distance, settle_norm, record_every
        self._steps = torch.full((runs,), -1)
        self._settled = torch.full((runs,), -1)
        self._settled_losses = starts.new_full((runs, problem.tasks), torch.nan)
        self._points = torch.empty_like(starts)
        self._losses = starts.new_empty(runs, problem.tasks)
        self._path: list[Tensor] = []

    @property
    def finished(self) -> bool:
        """Whether every run has reached the front."""
        return bool((self._steps >= 0).all())

    def record(self, first: int, snapshots: Sequence[Snapshot]) -> None:
        """Record the snapshots of the steps from ``first`` on."""
        points, losses, norms = (torch.stack(column) for column in zip(*snapshots, strict=True))
        settled = _first_index(norms < self._settle_norm)
        new = (self._settled < 0) & (settled >= 0)
        self._settled[new] = first + settled[new]
        self._settled_losses[new] = losses[settled[new], new.nonzero().flatten()]
        if self._stop_distance is not None:
            for run, step in self._arrivals(losses, self._stop_distance):
                self._steps[run] = first + step
                self._points[run], self._losses[run] = points[step, run], losses[step, run]
        running = self._steps < 0
        self._points[running], self._losses[running] = points[-1, running], losses[-1, running]
        for step in range(-first % self._record_every, len(snapshots), self._record_every):
            moving = running | (first + step < self._steps)
            self._path.append(losses[step].where(moving.unsqueeze(-1), self._losses))

    def _arrivals(self, losses: Tensor, stop_distance: float) -> list[tuple[int, int]]:
        """Return the runs that reach the front, each with its first step there."""
        # A run cannot come nearer to the front than its first distance minus the way it went: most runs are ruled out.
        nearest = self._problem.distance(losses[0]) - (losses - losses[0]).norm(dim=-1).amax(0)
        candidates = ((nearest < stop_distance) & (self._steps < 0)).nonzero().flatten().tolist()
        steps = [int(_first_index(self._problem.distance(losses[:, run]) < stop_distance)) for run in candidates]
        return [(run, step) for run, step in zip(candidates, steps, strict=True) if step >= 0]

    def outcome(self, steps: int, order: Tensor) -> Outcome:
        """Return the outcome after ``steps`` updates, with the runs in ``order``."""
        reached = self._steps >= 0
        return Outcome(
            steps=self._steps.where(reached, steps)[order],
            reached=reached[order],
            points=self._points[order],
            losses=self._losses[order],
            distance=self._problem.distance(self._losses)[order],
            settled=self._settled[order],
            settled_losses=self._settled_losses[order],
            path=torch.stack(self._path)[:, order],
            record_every=self._record_every,
        )


def _first_index(hits: Tensor) -> Tensor:
    """Return the first index along dimension 0 at which ``hits`` is true, -1 if there is none."""
    return hits.to(torch.uint8).argmax(0).where(hits.any(0), -1)
