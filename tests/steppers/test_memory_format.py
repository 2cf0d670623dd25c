"""Filters with their channels last: the same steps, also by fused optimizers, which read memory in its order."""

from collections.abc import Callable
from functools import partial
from typing import Any, final

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from torchsims import FOOPS, SIMS, Aggregated, Scalarized, aggregations
from torchsims.scalarizations import EW, FAMO, UW, LogMerit
from torchsims.steppers import Stepper

Make = Callable[[nn.Module, Callable[..., Any]], Stepper[Any]]
INNER = 3e-2


def weight_decay(model: nn.Module) -> Tensor:
    return torch.stack([p.flip(1).square().sum() for p in model.parameters() if p.ndim == 4]).sum()


def of_no_task(model: nn.Module) -> Tensor:
    """Return a term of a filter that no task depends on; autograd returns its gradient in another order."""
    weight = model.get_parameter("aside.weight")
    return (weight * torch.arange(weight.numel(), dtype=weight.dtype).sin().view(weight.shape)).sum()


CASES: dict[str, Make] = {
    "EW": lambda model, adam: Scalarized(model, EW(), outer=adam),
    "UW": lambda model, adam: Scalarized(model, UW(tasks=["a", "b"]), outer=adam),
    "FAMO": lambda model, adam: Scalarized(model, FAMO(), outer=adam),
    "regularizer": lambda model, adam: Scalarized(model, LogMerit(), outer=adam, regularizer=weight_decay),
    "regularizer alone": lambda model, adam: Scalarized(model, EW(), outer=adam, regularizer=of_no_task),
    "sequential": lambda model, adam: SIMS(model, outer=adam, inner=partial(adam, lr=INNER)),
    "joint": lambda model, adam: SIMS(model, outer=adam, inner=partial(adam, lr=INNER), evaluation="joint", prox=0.1),
    "alternating": lambda model, adam: SIMS(model, outer=adam, inner=partial(adam, lr=INNER), order="alternating"),
    "FOOPS": lambda model, adam: FOOPS(model, outer=adam, inner=partial(adam, lr=INNER), regularizer=weight_decay),
    "held weights": lambda model, adam: Aggregated(model, aggregations.MGDA(), outer=adam, every=2),
    "aggregated, regularizer": lambda model, adam: Aggregated(
        model, aggregations.UPGrad(), outer=adam, regularizer=of_no_task
    ),
} | {
    name: lambda model, adam, name=name: Aggregated(model, getattr(aggregations, name)(), outer=adam)  # type: ignore[misc]
    for name in ("MGDA", "CAGrad", "ConFIG", "DBMTL", "GradDrop", "NashMTL")
}


@pytest.fixture(scope="module")
def batches() -> Tensor:
    return torch.randn(3, 6, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@final
class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        convolution = partial(nn.Conv2d, kernel_size=3, padding=1)
        self.layers = nn.Sequential(convolution(3, 8), nn.GroupNorm(2, 8), nn.ReLU(), convolution(8, 2))
        self.aside = convolution(3, 4, bias=False)  # the outputs do not depend on it

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    y = model(x)
    return {"a": (y[:, 0] - 1).square().mean(), "b": 10 * (y[:, 1] - x[:, 0]).abs().mean()}


def trained(make: Make, batches: Tensor, *, last: bool, fused: bool, parts: int = 1) -> list[Tensor]:
    torch.manual_seed(0)
    model = Network().double()
    if last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # its hints leave it out
        assert not model.aside.weight.is_contiguous()
    method = make(model, partial(Adam, lr=1e-2, fused=fused))
    for x in batches:
        method.step(task_losses, *x.chunk(parts))
    return [p.detach() for p in model.parameters()]


def test_gaps_in_memory_are_refused_by_fused_optimizers_only() -> None:
    model = nn.Linear(4, 6)
    model.weight = nn.Parameter(torch.randn(6, 8)[:, ::2])
    Scalarized(model, EW(), outer=partial(Adam, lr=1e-2))
    with pytest.raises(
        ValueError, match=r"for parameters with gaps in memory\. Found `weight`: make it of a `contiguous"
    ):
        Scalarized(model, EW(), outer=partial(Adam, lr=1e-2, fused=True))


@pytest.mark.parametrize("case", ["EW", "joint", "MGDA"])
def test_a_state_goes_on_in_another_order(case: str, batches: Tensor) -> None:
    adam = partial(Adam, lr=1e-2, fused=True)
    torch.manual_seed(0)
    model = Network().double()
    method = CASES[case](model, adam)
    method.step(task_losses, batches[0])
    other = Network().double()
    other.load_state_dict(model.state_dict())
    other.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    resumed = CASES[case](other, adam)
    resumed.load_state_dict(method.state_dict())
    for each in (method, resumed):
        each.step(task_losses, batches[1])
    torch.testing.assert_close(list(other.parameters()), list(model.parameters()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_channels_last_and_fused_take_the_same_steps(case: str, batches: Tensor) -> None:
    expected = trained(CASES[case], batches, last=False, fused=False)
    for last, fused, parts in ((False, True, 1), (True, False, 1), (True, True, 1), (True, True, 3)):
        found = trained(CASES[case], batches, last=last, fused=fused, parts=parts)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
