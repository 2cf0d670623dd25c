"""Gradients between the backward pass and the optimizer: reduced, unscaled, checked, clipped."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import chain, compress, repeat
from operator import attrgetter, is_not
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from torchsims.steppers._distributed import Ranks
from torchsims.steppers._optimizers import parameters_of
from torchsims.steppers._passes import Batch
from torchsims.steppers._torch_private import unscale_and_check_

__all__ = [
    "add_proximal",
    "all_finite",
    "clip",
    "inform_scaler",
    "lay_out_gradients",
    "nonfinite_gradients",
    "raise_nonfinite_gradients",
    "reduce_and_unscale",
    "squared_distance",
    "unscale",
]

_GRAD = attrgetter("grad")
_KIND = attrgetter("device", "dtype", "layout")


def reduce_and_unscale(
    optimizer: Optimizer, parameters: Sequence[nn.Parameter], ranks: Ranks, scaler: GradScaler | None, connected: bool
) -> None:
    """Reduce the gradients over the ranks where no wrapper does, and unscale them.

    Losses that are not ``connected`` to any parameter, because no rank has a label, have zero gradients.
    """
    ranks.reduce_gradients(parameters)
    if not any(map(is_not, map(_GRAD, parameters), repeat(None))):  # then on every rank
        if not ranks.all(torch.tensor(not connected, device=ranks.device)):
            raise ValueError(
                "The closure should compute the losses with the model it is given. "
                "Found no gradient in any of its parameters."
            )
        for p in parameters:
            p.grad = torch.zeros_like(p)
    if scaler is not None:
        scaler.unscale_(optimizer)


def nonfinite_gradients(ranks: Ranks, *optimizers: Optimizer) -> Tensor:
    """Return a number that is not zero if any gradient is NaN or infinite, on any rank; valid until the next call."""
    found = [*map(_GRAD, chain.from_iterable(map(parameters_of, optimizers)))]
    gradients = [*compress(found, map(is_not, found, repeat(None)))]
    number = None if ranks.sharded else _check_at_once(gradients, ranks)
    if number is not None:
        return ranks.sum(number)
    return _multiply_and_check(list(map(ranks.local, gradients)), ranks.one, ranks)


def _check_at_once(gradients: list[Tensor], ranks: Ranks) -> Tensor | None:
    """Return a number that is not zero if any gradient is NaN or infinite, or nothing if one kernel cannot say it."""
    # On a processor it can for all dtypes, and raises where a gradient is sparse or complex.
    if not ranks.one.is_cpu and {*map(_KIND, gradients)} != {(ranks.device, torch.float32, torch.strided)}:
        return None
    try:
        return unscale_and_check_(gradients, ranks.one, ranks.found)
    except RuntimeError:
        return None


def all_finite(tensors: Sequence[Tensor], ranks: Ranks) -> Tensor:
    """Return whether tensors that belong to no optimizer yet are finite, on all ranks."""
    return _multiply_and_check(tensors, ranks.one, ranks) == 0


@torch.no_grad()
def unscale(gradients: Sequence[Tensor], scale: Callable[[Tensor], Tensor], ranks: Ranks) -> Tensor:
    """Divide gradients that are not in `.grad` yet by the scale; return whether all are finite, on all ranks."""
    return _multiply_and_check(gradients, 1 / scale(ranks.one), ranks) == 0


@torch.no_grad()
def inform_scaler(scaler: GradScaler | None, optimizer: Optimizer, sound: bool) -> None:
    """Tell the scaler whether gradients that it has not unscaled itself are finite, by a placeholder for them."""
    if scaler is None:
        return
    parameters = parameters_of(optimizer)
    gradients = [p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    parameters[0].grad = torch.full_like(parameters[0], 0.0 if sound else torch.nan)
    scaler.unscale_(optimizer)
    for p, gradient in zip(parameters, gradients, strict=True):
        p.grad = gradient


@torch.no_grad()
def lay_out_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Give gradients the order in memory of their parameters, as autograd does.

    Fused optimizers of torch rely on it: on a processor they take wrong steps where the orders differ.
    """
    for p in parameters:
        if p.grad is not None and p.grad.layout is torch.strided and p.grad.stride() != p.stride():
            p.grad = torch.empty_like(p).copy_(p.grad)


def _multiply_and_check(gradients: Sequence[Tensor], factor: Tensor, ranks: Ranks) -> Tensor:
    """Multiply gradients by a factor; return a number that is not zero if any is NaN or infinite, on any rank."""
    groups: defaultdict[tuple[torch.device, torch.dtype], list[Tensor]] = defaultdict(list)
    for g in [torch.view_as_real(g) if g.is_complex() else g for g in gradients]:
        groups[g.device, g.dtype].append(g)
    found = [unscale_and_check_(group, factor.to(group[0].device)).to(ranks.device) for group in groups.values()]
    return ranks.sum(found[0] if len(found) == 1 else torch.cat([*found, factor.new_zeros(1)]).sum())


@torch.no_grad()
def add_proximal(theta: Sequence[nn.Parameter], challenger: Sequence[nn.Parameter], prox: float, target: int) -> None:
    r"""Add the gradient of the proximal term to :math:`\theta` (target 0) or :math:`\theta'` (target 1).

    :math:`\theta` descends on :math:`-h` and :math:`\theta'` on :math:`h`, so that both gradients lose
    :math:`\lambda (\theta - \theta')`.
    """
    for pair in zip(theta, challenger, strict=True):
        difference = pair[0] - pair[1]
        p = pair[target]
        if p.grad is None:
            p.grad = -prox * difference
        elif p.grad.is_sparse:
            p.grad = p.grad.to_dense().sub_(difference, alpha=prox)  # the term has an entry everywhere
        else:
            p.grad.sub_(difference, alpha=prox)


@torch.no_grad()
def squared_distance(theta: Sequence[nn.Parameter], challenger: Sequence[nn.Parameter], ranks: Ranks) -> Tensor:
    r"""Return :math:`\lVert \theta - \theta' \rVert^2` over all trainable parameters."""
    parts = [ranks.local(p - q).abs().square().sum().to(ranks.device) for p, q in zip(theta, challenger, strict=True)]
    total = torch.stack(parts).sum()
    return ranks.sum(total) if ranks.sharded else total


def clip(optimizer: Optimizer, max_norm: float, norm_type: float, ranks: Ranks) -> Tensor:
    """Clip the gradients of one optimizer and return their norm before."""
    parameters = parameters_of(optimizer)
    if not ranks.sharded:
        return nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
    # The parameters of a scalarization are not sharded, and the two kinds do not mix in one operation.
    kinds = [[p for p in parameters if ranks.is_sharded(p) is split] for split in (True, False)]
    gradients = [[p.grad for p in kind if p.grad is not None] for kind in kinds]
    norms = torch.stack([ranks.full_tensor(nn.utils.get_total_norm(kind, norm_type)) for kind in gradients if kind])
    norm: Tensor = torch.linalg.vector_norm(norms, norm_type)
    for kind in kinds:
        nn.utils.clip_grads_with_norm_(kind, max_norm, norm)
    return norm


def raise_nonfinite_gradients(
    batch: Batch, provide: AbstractContextManager[nn.Module], losses: dict[str, float]
) -> NoReturn:
    """Raise an error that names the task whose gradients are not finite, found by one backward pass per task."""
    found: dict[str, str] = {}
    with provide as module, batch.ranks.raise_on_all():
        if not batch.ranks.sharded:  # a sharded module allows one backward pass per forward pass
            found = _nonfinite_tasks(batch, module)
    everywhere = {task: parameter for each in batch.ranks.gather(found) for task, parameter in each.items()}
    if everywhere:
        places = [f"of task `{t}` in parameter `{p}` at a loss of {losses[t]}" for t, p in everywhere.items()]
        raise ValueError(f"The gradients of every task should be finite. Found some that are not: {', '.join(places)}.")
    raise ValueError(
        "The weighted sum of the tasks' gradients should be finite. "
        f"Found one that is not, though every task's are, at losses of {losses}."
    )


def _nonfinite_tasks(batch: Batch, module: nn.Module) -> dict[str, str]:
    """Return the tasks with a gradient that is not finite, and the parameter it belongs to."""
    names, parameters = zip(*[(n, p) for n, p in module.named_parameters() if p.requires_grad], strict=True)
    found: dict[str, str] = {}
    batch.noise.replay()
    for micro_batch in batch.micro_batches:
        with batch.ranks.accumulation(last=False), torch.enable_grad():
            reading = batch.read(module, micro_batch)
            for index, (task, part) in enumerate(zip(batch.tasks.names, reading.parts, strict=True)):
                if not part.requires_grad:
                    continue
                gradients = torch.autograd.grad(reading.loss(index), parameters, retain_graph=True, allow_unused=True)
                for name, g in zip(names, gradients, strict=True):
                    if g is not None and not batch.ranks.local(g).isfinite().all():
                        found.setdefault(task, name)
    return found
