r"""Hundreds of independent runs on an analytic problem, advanced as one tensor.

Every run is a row. The losses of all rows go through :mod:`torchsims.merit`, a scalarization or a gradient-level method
at once, and an elementwise optimizer (Adam, SGD) moves all rows at once, so a row never sees another one. A run that
reaches the front is over at that step; its row moves on unobserved, which costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TypeAlias

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from torchsims import merit
from torchsims.experiments._directions import Directions
from torchsims.problems import Problem
from torchsims.scalarizations import Scalarization
from torchsims.transforms import Log, Transform

__all__ = ["Method", "Outcome", "Rule", "Saddle", "run_rows"]

_CHUNK = 250  # steps between two looks at the front

_ADAM = partial(Adam, fused=True)  # Adam in one call a parameter group

OptimizerFactory: TypeAlias = Callable[..., Optimizer]
Setting: TypeAlias = float | Tensor
Rule: TypeAlias = Callable[[int, Tensor], tuple[Tensor, Tensor]]
Record: TypeAlias = tuple[Tensor, Tensor, Tensor]  # points, unscaled losses, norm of all gradients
Memory: TypeAlias = tuple[Tensor, ...]  # what a method keeps for the next step
Move: TypeAlias = tuple[tuple[Tensor, ...], Record, Memory]  # the gradients of all copies first
Gradients: TypeAlias = Callable[..., Move]


@dataclass(frozen=True, eq=False)
class Saddle:
    r"""SIMS (or FOOPS, with another transform) for many runs: every setting is one number or one per run.

    Args:
        tau: :math:`\tau`.
        prox: :math:`\lambda`.
        augment: :math:`\rho`.
        transform: :math:`\psi`.
        offset: :math:`\theta' - \theta` at the start, `runs x d` or one number for all.
        inner_rate: the learning rate of :math:`\theta'`; that of :math:`\theta` by default.
        attract: :math:`\kappa`, a pull :math:`\kappa (\theta - \theta')` added to the gradient by which
            :math:`\theta` descends. The saddle repels :math:`\theta` from :math:`\theta'` with :math:`\lambda`:
            :math:`\kappa = \lambda` cancels that, :math:`2 \lambda` turns it round.
        rule: chooses ``prox`` and ``attract`` anew before every step, given the number of the step and the norm of all
            gradients at the last one (infinite at first), `runs`.
    """

    tau: Setting
    prox: Setting = 0.0
    augment: Setting = 0.0
    transform: Transform = Log()  # noqa: RUF009 - immutable
    offset: Setting = 0.0
    inner_rate: Setting | None = None
    attract: Setting = 0.0
    rule: Rule | None = None


Method: TypeAlias = Scalarization | Directions | Saddle


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where every run ended, and the way there.

    Attributes:
        steps: updates made until the run reached the front, or all of them, `runs`.
        reached: whether the run came closer to the front than asked, `runs`.
        points: where it ended, `runs x d`.
        losses: the unscaled losses there, `runs x m`.
        distance: the distance of these to the front, `runs`.
        settled: the first step at which the norm of all gradients, or of the direction made of those of the tasks, was
            below the threshold, -1 if never, `runs`.
        settled_losses: the unscaled losses at that step, NaN if never, `runs x m`.
        path: the unscaled losses at every ``every``-th step, `k x runs x m`; a run that is over stays at its end.
        every: the steps between two entries of ``path``.
    """

    steps: Tensor
    reached: Tensor
    points: Tensor
    losses: Tensor
    distance: Tensor
    settled: Tensor
    settled_losses: Tensor
    path: Tensor
    every: int


def run_rows(
    problem: Problem,
    method: Method,
    starts: Tensor,
    *,
    scale: Tensor | float = 1.0,
    steps: int,
    rate: float = 1e-3,
    optimizer: OptimizerFactory = _ADAM,
    stop: float | None = None,
    settle: float = 0.1,
    every: int = 100,
    compiled: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Run ``method`` on ``problem`` from all ``starts`` at once.

    Args:
        problem: what to minimise.
        method: a scalarization, a gradient-level method, or the settings of a saddle.
        starts: one row a run, `runs x d`; their dtype is that of the runs.
        scale: what multiplies the losses before the method sees them, `runs x m`.
        steps: the most updates of a run.
        rate: the learning rate of the model.
        optimizer: any elementwise optimizer, given parameter groups with their rates.
        stop: a run is over when its unscaled losses are closer to the front than this; never by default.
        settle: the threshold of :attr:`Outcome.settled`.
        every: the steps between two entries of :attr:`Outcome.path`.
        compiled: whether to compile the losses and gradients: several seconds, then about ten times faster.
        progress: called with the number of steps done since its last call.

    Example:
        >>> import torch
        >>> from torchsims.problems import F1
        >>> from torchsims.scalarizations import EW
        >>> outcome = run_rows(F1(), EW(), F1().starts, steps=150, rate=0.1, stop=0.05)
        >>> outcome.reached
        tensor([True, True, True, True])
    """
    rates = _inner_rates(method, len(starts), rate)
    order = rates.argsort(stable=True)  # runs with one inner rate are then one block of rows, one parameter group
    rows = _Rows(problem, method, starts, torch.as_tensor(scale), order, compiled=compiled)
    rows.optimize(optimizer, rate, rates[order])
    watch = _Watch(problem, starts, stop, settle, every)
    done = 0
    while done <= steps and not watch.over:
        size = min(_CHUNK, steps + 1 - done)
        watch.look(done, [rows.step() for _ in range(size)])
        done += size
        if progress is not None:
            progress(size)
    if progress is not None:
        progress(steps + 1 - done)
    return watch.outcome(steps, order.argsort())


class _Rows:
    """The copies of all runs and one step of all of them."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        starts: Tensor,
        scale: Tensor,
        order: Tensor,
        *,
        compiled: bool,
    ) -> None:
        def per_run(setting: Setting) -> Tensor:
            return torch.as_tensor(setting).to(starts).expand(len(starts))[order]

        theta = starts[order]
        self._memory: Memory = ()
        settings = [scale.to(starts).expand(len(starts), problem.tasks)[order]]
        if isinstance(method, Saddle):
            offset = torch.as_tensor(method.offset).to(starts).expand(starts.shape)[order]
            self._copies = [theta, theta + offset]
            settings += [per_run(x) for x in (method.tau, method.augment, method.prox, method.attract)]
            gradients = _saddle(problem, method)
        elif isinstance(method, Directions):
            shape = theta.unsqueeze(-2).expand(-1, problem.tasks, -1)  # that of the gradients
            self._copies = [theta, *method.learned(shape)]
            self._memory = method.memory(shape)
            gradients = _directed(problem, method)
        else:
            self._copies = [theta]
            gradients = _descent(problem, method)
        if compiled:
            torch.compiler.reset()  # an older method of the same shape would count as a recompilation of this one
            gradients = torch.compile(gradients, fullgraph=True)
        self._settings, self._gradients, self._order = settings, gradients, order
        self._rule = method.rule if isinstance(method, Saddle) else None
        self._steps, self._residual = 0, torch.full_like(starts[:, 0], torch.inf)
        self._updates: list[tuple[Optimizer, list[tuple[Tensor, int, int]]]] = []

    def optimize(self, optimizer: OptimizerFactory, rate: float, inner_rates: Tensor) -> None:
        """Give every copy its optimizer; ``inner_rates`` are sorted."""
        for copy, rates in zip(self._copies, (torch.full_like(inner_rates, rate), inner_rates), strict=False):
            blocks, groups, first = [], [], 0
            for value, same in groupby(rates.tolist()):
                last = first + len(list(same))
                block = copy[first:last]  # a view: the optimizer moves the rows of the copy itself
                blocks.append((block, first, last))
                groups.append({"params": [block], "lr": value})
                first = last
            self._updates.append((optimizer(groups), blocks))

    @torch.no_grad()
    def step(self) -> Record:
        """Move all rows once; return where they were."""
        if self._rule is not None:
            chosen = self._rule(self._steps, self._residual[self._order.argsort()])
            self._settings[-2:] = [x[self._order] for x in chosen]
        gradients, record, self._memory = self._gradients(self._copies, *self._settings, *self._memory)
        self._residual = record[-1]
        self._steps += 1
        for gradient, (optimizer, blocks) in zip(gradients, self._updates, strict=True):
            for block, first, last in blocks:
                block.grad = gradient[first:last]
            optimizer.step()
        return record


class _Watch:
    """What happened to every run so far, in the order of the rows."""

    def __init__(self, problem: Problem, starts: Tensor, stop: float | None, settle: float, every: int) -> None:
        runs = len(starts)
        self._problem, self._stop, self._settle, self._every = problem, stop, settle, every
        self._steps = torch.full((runs,), -1)
        self._settled = torch.full((runs,), -1)
        self._settled_losses = starts.new_full((runs, problem.tasks), torch.nan)
        self._points = torch.empty_like(starts)
        self._losses = starts.new_empty(runs, problem.tasks)
        self._path: list[Tensor] = []

    @property
    def over(self) -> bool:
        """Whether every run has reached the front."""
        return bool((self._steps >= 0).all())

    def look(self, first: int, records: list[Record]) -> None:
        """Look at the records of the steps from ``first`` on."""
        points, losses, residual = (torch.stack(column) for column in zip(*records, strict=True))
        settled = _first(residual < self._settle)
        new = (self._settled < 0) & (settled >= 0)
        self._settled[new] = first + settled[new]
        self._settled_losses[new] = losses[settled[new], new.nonzero().flatten()]
        if self._stop is not None:
            for run, step in self._arrivals(losses):
                self._steps[run] = first + step
                self._points[run], self._losses[run] = points[step, run], losses[step, run]
        alive = self._steps < 0
        self._points[alive], self._losses[alive] = points[-1, alive], losses[-1, alive]
        for step in range(-first % self._every, len(records), self._every):
            moving = alive | (first + step < self._steps)
            self._path.append(losses[step].where(moving.unsqueeze(-1), self._losses))

    def _arrivals(self, losses: Tensor) -> list[tuple[int, int]]:
        """Return the runs that reach the front, each with its first step there."""
        assert self._stop is not None
        # A run cannot be nearer to the front than it was at first less the way it went since: most runs are ruled out.
        nearest = self._problem.distance(losses[0]) - (losses - losses[0]).norm(dim=-1).amax(0)
        found = []
        for run in ((nearest < self._stop) & (self._steps < 0)).nonzero().flatten().tolist():
            step = int(_first(self._problem.distance(losses[:, run]) < self._stop))
            if step >= 0:
                found.append((run, step))
        return found

    def outcome(self, steps: int, order: Tensor) -> Outcome:
        """Return the outcome with the runs in ``order``."""
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
            every=self._every,
        )


def _first(hits: Tensor) -> Tensor:
    """Return the first index along dimension 0 at which ``hits`` is true, -1 if there is none."""
    return hits.to(torch.uint8).argmax(0).where(hits.any(0), -1)


def _inner_rates(method: Method, runs: int, rate: float) -> Tensor:
    inner = method.inner_rate if isinstance(method, Saddle) else None
    return torch.as_tensor(rate if inner is None else inner, dtype=torch.float64).expand(runs)


def _descent(problem: Problem, method: Scalarization) -> Gradients:
    if list(method.state_dict()):
        raise ValueError(f"Parameter `method` should keep no statistics between steps. Found {method}.")

    def gradients(copies: list[Tensor], scale: Tensor) -> Move:
        def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
            losses = problem.losses(theta)
            return method(losses * scale).sum(), losses

        (theta,) = copies
        gradient, losses = torch.func.grad(objective, has_aux=True)(theta)
        return (gradient,), (theta.clone(), losses, gradient.norm(dim=-1)), ()

    return gradients


def _directed(problem: Problem, method: Directions) -> Gradients:
    def gradients(copies: list[Tensor], scale: Tensor, *memory: Tensor) -> Move:
        theta, *learned = copies
        losses, pull, *_ = torch.func.vjp(problem.losses, theta)
        slopes = (method.transform.slope(losses * scale) * scale).diag_embed()  # (run, task, task)
        by_task = torch.stack([pull(slope)[0] for slope in slopes.unbind(-2)], -2)  # (run, task, coordinate)
        move = method.move(by_task, losses * scale, tuple(learned), memory)
        return (move.directions, *move.learned), (theta.clone(), losses, move.directions.norm(dim=-1)), move.memory

    return gradients


def _saddle(problem: Problem, method: Saddle) -> Gradients:
    def gradients(
        copies: list[Tensor], scale: Tensor, tau: Tensor, augment: Tensor, prox: Tensor, attract: Tensor
    ) -> Move:
        def objective(theta: Tensor, challenger: Tensor) -> tuple[Tensor, Tensor]:
            losses = problem.losses(theta)
            h = merit.h(
                losses * scale,
                problem.losses(challenger) * scale,
                tau=tau,
                transform=method.transform,
                augment=augment,
                prox=prox,
                squared_distance=((theta - challenger) ** 2).sum(-1),
            )
            return h.sum(), losses

        theta, challenger = copies
        (up, down), losses = torch.func.grad(objective, argnums=(0, 1), has_aux=True)(theta, challenger)
        up = up - attract.unsqueeze(-1) * (theta - challenger)
        return (-up, down), (theta.clone(), losses, torch.cat([up, down], -1).norm(dim=-1)), ()

    return gradients
