"""Every optimizer of torch and of schedule-free that steps without a closure, a minimal one, and a model for each."""

import inspect
from collections.abc import Callable
from typing import Any

import schedulefree
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Optimizer, SparseAdam

from helpers.small_runs import AnyMethod
from torchsims import SIMS, Aggregated, Scalarized
from torchsims.aggregations import MGDA
from torchsims.scalarizations import EW


class Minimal(Optimizer):
    """Gradient descent: the least that a class of one's own has to define."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["lr"])


class WideState(Minimal):
    """Momentum in double precision, whatever the precision of the parameters is."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    momentum = self.state[p].setdefault("momentum", torch.zeros_like(p, dtype=torch.float64))
                    p.sub_(momentum.mul_(0.9).add_(p.grad), alpha=group["lr"])


def _wrapped(params: Any, lr: float) -> Any:
    return schedulefree.ScheduleFreeWrapper(SGD(params, lr=lr))


def _all_of(module: Any) -> dict[str, Callable[..., Any]]:
    return {
        name: kind
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and issubclass(kind, Optimizer) and kind not in (Optimizer, LBFGS)
        if not name.endswith("Closure")
    }


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    **_all_of(torch.optim),
    **_all_of(schedulefree),
    "ScheduleFreeWrapper": _wrapped,
    "Minimal": Minimal,
}

STEPPERS_OF: dict[str, Callable[..., AnyMethod]] = {
    "EW": lambda model, make: Scalarized(model, EW(), outer=make(0.01)),
    "MGDA": lambda model, make: Aggregated(model, MGDA(), outer=make(0.01)),
    "SIMS": lambda model, make: SIMS(model, outer=make(0.01), inner=make(0.03), perturb=0.1),
    "SIMS alternating": lambda model, make: SIMS(
        model, outer=make(0.01), inner=make(0.03), perturb=0.1, order="alternating", evaluation="joint"
    ),
}


def build_with(optimizer: str, stepper: str, seed: int, dtype: torch.dtype = torch.float64) -> AnyMethod:
    """Return a stepper with an optimizer: of matrices only, as Muon needs them, or of sparse gradients."""
    kind = WideState if optimizer == "WideState" else OPTIMIZERS[optimizer]
    torch.manual_seed(seed)
    model = (
        nn.Embedding(5, 2, sparse=True)
        if kind is SparseAdam
        else nn.Sequential(nn.Linear(5, 4, bias=False), nn.Linear(4, 2, bias=False))
    )
    method = STEPPERS_OF[stepper](model.to(dtype), lambda lr: lambda params: kind(params, lr=lr))
    for each in method.optimizers:
        if type(each).__module__.startswith("schedulefree"):
            each.train()  # type: ignore[attr-defined]
    return method


def inputs(optimizer: str, dtype: torch.dtype) -> Tensor:
    if optimizer == "SparseAdam":
        return torch.tensor([0, 1, 1, 3])
    return torch.linspace(-1, 2, 20, dtype=dtype).view(4, 5)


def two_losses(model: nn.Module, x: Tensor) -> Tensor:
    losses: Tensor = (model(x) - 1).square().mean(0)
    return losses
