r"""The runner: hundreds of independent runs on an analytic problem, advanced as one tensor.

Every run is a row. The losses of all rows go through :mod:`torchsims.merit`, a scalarization or a gradient-level method
at once, and an elementwise optimizer (Adam, SGD) moves all rows at once, so that no row depends on another one. A run
is finished at the step at which it reaches the front; its row keeps moving unrecorded, which costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from torchsims import merit
from torchsims.problems import Problem
from torchsims.scalarizations import Scalarization
from torchsims.synthetic.directions import GradientMethod, Tensors
from torchsims.synthetic.outcomes import Outcome, Recorder, Snapshot
from torchsims.transforms import Log, Transform

_CHUNK = 250  # steps between two measurements of the distance to the front
_ADAM = partial(Adam, fused=True)  # one call per parameter group

OptimizerFactory: TypeAlias = Callable[..., Optimizer]
PerRun: TypeAlias = float | Tensor
ProxRule: TypeAlias = Callable[[int, Tensor], tuple[Tensor, Tensor]]
Gradients: TypeAlias = Callable[..., tuple[Tensors, Snapshot, Tensors]]  # gradients per copy, snapshot, next state


@dataclass(frozen=True, eq=False)
class Saddle:
    r"""SIMS (or FOOPS, with another transform) for many runs: every setting is one number or one per run.

    Args:
        tau: :math:`\tau`.
        prox: :math:`\lambda`.
        augment: :math:`\rho`.
        transform: :math:`\psi`.
        offset: :math:`\theta' - \theta` at the start, `runs x d` or one number for all.
        inner_lr: learning rate of :math:`\theta'`; that of :math:`\theta` by default.
        attract: :math:`\kappa`, a pull :math:`\kappa (\theta - \theta')` added to the gradient by which
            :math:`\theta` descends. The saddle repels :math:`\theta` from :math:`\theta'` with :math:`\lambda`:
            :math:`\kappa = \lambda` cancels that, :math:`2 \lambda` reverses it.
        rule: chooses ``prox`` and ``attract`` anew before every step, from the number of the step and the norm of all
            gradients at the previous one (infinite at first), `runs`.
        preference: :math:`p`, `runs x m`; :math:`\theta` then minimises the preference objective with the losses at the
            start as reference, as :func:`torchsims.merit.weights` says. Not with ``prox``, ``attract`` and ``rule``.
    """

    tau: PerRun
    prox: PerRun = 0.0
    augment: PerRun = 0.0
    transform: Transform = Log()  # noqa: RUF009 - immutable
    offset: PerRun = 0.0
    inner_lr: PerRun | None = None
    attract: PerRun = 0.0
    rule: ProxRule | None = None
    preference: Tensor | None = None


Method: TypeAlias = Scalarization | GradientMethod | Saddle


def run_rows(
    problem: Problem,
    method: Method,
    starts: Tensor,
    *,
    scale: Tensor | float = 1.0,
    steps: int,
    lr: float = 1e-3,
    optimizer: OptimizerFactory = _ADAM,
    stop_distance: float | None = None,
    settle_norm: float = 0.1,
    record_every: int = 100,
    compiled: bool = False,
    epoch: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Run ``method`` on ``problem`` from all ``starts`` at once.

    Args:
        problem: problem to minimise.
        method: a scalarization, a gradient-level method, or the settings of a saddle.
        starts: one row per run, `runs x d`; their dtype is that of the runs.
        scale: factors of the losses before the method sees them, `runs x m`.
        steps: largest number of updates per run.
        lr: learning rate of the model.
        optimizer: any elementwise optimizer, given parameter groups with their learning rates.
        stop_distance: a run is finished when its unscaled losses are closer to the front than this; never by default.
        settle_norm: threshold of :attr:`Outcome.settled`.
        record_every: steps between two entries of :attr:`Outcome.path`.
        compiled: whether to compile the losses and gradients: several seconds, then about ten times faster.
        epoch: steps between two calls of ``end_epoch`` of a scalarization; never by default.
        progress: called with the number of steps done since its last call.

    Example:
        >>> import torch
        >>> from torchsims.problems import F1
        >>> from torchsims.scalarizations import EW
        >>> outcome = run_rows(F1(), EW(), F1().starts, steps=150, lr=0.1, stop_distance=0.05)
        >>> outcome.reached
        tensor([True, True, True, True])
    """
    inner_lr = method.inner_lr if isinstance(method, Saddle) else None
    inner_lrs = torch.as_tensor(lr if inner_lr is None else inner_lr, dtype=torch.float64).expand(len(starts))
    order = inner_lrs.argsort(stable=True)  # runs with one inner rate are then one block of rows, one parameter group
    rows = _Rows(problem, method, starts, torch.as_tensor(scale), order, compiled=compiled)
    rows.make_optimizer(optimizer, lr, inner_lrs[order].tolist())
    recorder = Recorder(
        problem, starts, stop_distance=stop_distance, settle_norm=settle_norm, record_every=record_every
    )
    done = 0
    while done <= steps and not recorder.finished:
        size = min(_CHUNK if epoch is None else epoch, steps + 1 - done)
        recorder.record(done, [rows.step() for _ in range(size)])
        done += size
        if epoch is not None and isinstance(method, Scalarization):
            method.end_epoch()
        if progress is not None:
            progress(size)
    if progress is not None:
        progress(steps + 1 - done)
    return recorder.outcome(steps, order.argsort())


class _Rows:
    """The copies of all runs, and one step of all of them."""

    def __init__(
        self, problem: Problem, method: Method, starts: Tensor, scale: Tensor, order: Tensor, *, compiled: bool
    ) -> None:
        def per_run(value: PerRun) -> Tensor:
            return torch.as_tensor(value).to(starts).expand(len(starts))[order]

        theta = starts[order]
        self._copies = [theta]
        self._state: Tensors = ()
        self._settings = [scale.to(starts).expand(len(starts), problem.tasks)[order]]
        if isinstance(method, Saddle):
            self._copies.append(theta + torch.as_tensor(method.offset).to(starts).expand(starts.shape)[order])
            self._settings += [per_run(x) for x in (method.tau, method.augment)]
            if method.preference is None:
                self._settings += [per_run(x) for x in (method.prox, method.attract)]
                gradients = _saddle(problem, method)
            else:
                reference = problem.losses(theta) * self._settings[0]
                self._settings += [method.preference.to(starts).expand_as(reference)[order], reference]
                gradients = _preferred(problem, method)
        elif isinstance(method, GradientMethod):
            shaped = theta.unsqueeze(-2).expand(-1, problem.tasks, -1)  # as the gradients
            self._copies += method.initial_parameters(shaped)
            self._state = method.initial_state(shaped)
            gradients = _aggregation(problem, method)
        else:
            gradients = _descent(problem, method, compiled=compiled)
        if compiled:
            torch.compiler.reset()  # an older method of the same shape would count as a recompilation of this one
            gradients = torch.compile(gradients, fullgraph=True)
        self._gradients, self._order = gradients, order
        self._rule = method.rule if isinstance(method, Saddle) else None
        self._steps, self._gradient_norm = 0, torch.full_like(starts[:, 0], torch.inf)
        self._blocks: list[tuple[Tensor, int, slice]] = []  # parameters, each some rows of a copy

    def make_optimizer(self, optimizer: OptimizerFactory, lr: float, inner_lrs: list[float]) -> None:
        """Make the optimizer of all copies, with one parameter group per learning rate; ``inner_lrs`` are sorted."""
        groups: dict[float, list[Tensor]] = {}
        for i, (copy, lrs) in enumerate(zip(self._copies, ([lr] * len(inner_lrs), inner_lrs), strict=False)):
            first = 0
            for value, same in groupby(lrs):
                rows = slice(first, first + len(list(same)))
                block = copy[rows]  # a view: the optimizer moves the rows of the copy itself
                self._blocks.append((block, i, rows))
                groups.setdefault(value, []).append(block)
                first = rows.stop
        self._optimizer = optimizer([{"params": blocks, "lr": value} for value, blocks in groups.items()])

    @torch.no_grad()
    def step(self) -> Snapshot:
        """Move all rows once; return the snapshot from before."""
        if self._rule is not None:
            chosen = self._rule(self._steps, self._gradient_norm[self._order.argsort()])
            self._settings[-2:] = [x[self._order] for x in chosen]
        gradients, snapshot, self._state = self._gradients(self._copies, *self._settings, *self._state)
        self._gradient_norm = snapshot.gradient_norm
        self._steps += 1
        for block, copy, rows in self._blocks:
            block.grad = gradients[copy][rows]
        self._optimizer.step()
        return snapshot


def _descent(problem: Problem, method: Scalarization, *, compiled: bool) -> Gradients:
    if list(method.state_dict()):
        if compiled:
            raise ValueError(f"Parameter `method` should keep no statistics if it is compiled. Found {method}.")
        return _descent_with_statistics(problem, method)

    def gradients(copies: list[Tensor], scale: Tensor) -> tuple[Tensors, Snapshot, Tensors]:
        def objective(theta: Tensor) -> tuple[Tensor, Tensor]:
            losses = problem.losses(theta)
            return method(losses * scale, check=False).sum(), losses

        (theta,) = copies
        gradient, losses = torch.func.grad(objective, has_aux=True)(theta)
        return (gradient,), Snapshot(theta.clone(), losses, gradient.norm(dim=-1)), ()

    return gradients


def _descent_with_statistics(problem: Problem, method: Scalarization) -> Gradients:
    def gradients(copies: list[Tensor], scale: Tensor) -> tuple[Tensors, Snapshot, Tensors]:
        (theta,) = copies
        losses, pull, *_ = torch.func.vjp(problem.losses, theta)
        seen = (losses * scale).detach().requires_grad_()
        with torch.enable_grad():
            (slopes,) = torch.autograd.grad(method(seen, check=False).sum(), seen)
        (gradient,) = pull(slopes * scale)
        return (gradient,), Snapshot(theta.clone(), losses, gradient.norm(dim=-1)), ()

    return gradients


def _aggregation(problem: Problem, method: GradientMethod) -> Gradients:
    def gradients(copies: list[Tensor], scale: Tensor, *state: Tensor) -> tuple[Tensors, Snapshot, Tensors]:
        theta, *parameters = copies
        losses, pull, *_ = torch.func.vjp(problem.losses, theta)
        slopes = (method.transform.slope(losses * scale) * scale).diag_embed()  # (run, task, task)
        by_task = torch.stack([pull(slope)[0] for slope in slopes.unbind(-2)], -2)  # (run, task, coordinate)
        direction, slope, state = method.aggregate(by_task, losses * scale, tuple(parameters), state)
        return (direction, *slope), Snapshot(theta.clone(), losses, direction.norm(dim=-1)), state

    return gradients


def _saddle(problem: Problem, method: Saddle) -> Gradients:
    def gradients(
        copies: list[Tensor], scale: Tensor, tau: Tensor, augment: Tensor, prox: Tensor, attract: Tensor
    ) -> tuple[Tensors, Snapshot, Tensors]:
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
        return (-up, down), Snapshot(theta.clone(), losses, torch.cat([up, down], -1).norm(dim=-1)), ()

    return gradients


def _preferred(problem: Problem, method: Saddle) -> Gradients:
    def gradients(
        copies: list[Tensor], scale: Tensor, tau: Tensor, augment: Tensor, preference: Tensor, reference: Tensor
    ) -> tuple[Tensors, Snapshot, Tensors]:
        theta, challenger = copies
        losses, pull, *_ = torch.func.vjp(problem.losses, theta)
        others, pull_challenger, *_ = torch.func.vjp(problem.losses, challenger)
        settings: dict[str, Any] = {"tau": tau, "transform": method.transform, "augment": augment}
        here, there = losses * scale, others * scale
        w = merit.weights(here, there, **settings, preference=preference, reference=reference)
        _, for_challenger = merit.coefficients(here, there, **settings)
        (up,) = pull(w * method.transform.slope(here) * scale)
        (down,) = pull_challenger(for_challenger * scale)
        return (up, down), Snapshot(theta.clone(), losses, torch.cat([up, down], -1).norm(dim=-1)), ()

    return gradients
