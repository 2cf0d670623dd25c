"""Losses that can reach zero, under a floor that is a share of their first value."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from torchsims import SIMS, Aggregated, Scalarized, Stepper, TaskLosses
from torchsims.aggregations import DBMTL
from torchsims.scalarizations import LogMerit
from torchsims.transforms import FlooredLog, Log

OUTER, INNER = partial(SGD, lr=0.05), partial(SGD, lr=0.1)
KAPPA, TAU = 0.1, 0.7


class Point(nn.Module):
    """A point in the plane."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))


def sims(model: nn.Module, **options: Any) -> Stepper[Any]:
    return SIMS(model, tau=TAU, outer=OUTER, inner=INNER, transform=FlooredLog(KAPPA), **options)


def log_merit(model: nn.Module, **options: Any) -> Stepper[Any]:
    return Scalarized(model, LogMerit(TAU, floor=KAPPA), outer=OUTER, **options)


every_method = pytest.mark.parametrize("make", [sims, log_merit])


def squares(scale: tuple[float, float], known: tuple[int, int] = (1, 1)) -> Callable[[nn.Module], TaskLosses]:
    """Return a closure of two squared coordinates, times constants, with labels or without."""

    def task_losses(model: nn.Module) -> TaskLosses:
        x = model.get_parameter("x")
        total, count = torch.tensor(scale, dtype=x.dtype) * x.square(), torch.tensor(known)
        return TaskLosses(total=dict(zip("ab", total, strict=True)), count=dict(zip("ab", count, strict=True)))

    return task_losses


def found_first(method: Stepper[Any]) -> Tensor:
    """Return the first losses that a method keeps in its state."""
    state = method.state_dict()
    kept: Tensor = (
        state["first_losses"]["first"] if "first_losses" in state else state["scalarization"]["first_losses.first"]
    )
    return kept


@every_method
def test_a_loss_of_zero_is_valid_after_the_first_and_is_pulled_no_further(make: Callable[..., Stepper[Any]]) -> None:
    method = make(Point())
    method.step(squares((1.0, 1.0)))
    report = method.step(squares((0.0, 1.0)))
    assert report.losses["a"] == 0
    assert torch.tensor(list(report.weights.values())).isfinite().all()
    for _ in range(40):
        report = method.step(squares((1.0, 1.0)))  # without noise: the loss goes to zero, and nothing else happens
    assert report.losses["a"] < 1e-6


@every_method
@pytest.mark.parametrize(("scale", "found"), [((0.0, 1.0), "first loss. Found 0.0"), ((-1.0, 1.0), "Found -1.0")])
def test_a_first_loss_of_zero_and_a_negative_loss_change_nothing(
    make: Callable[..., Stepper[Any]], scale: tuple[float, float], found: str
) -> None:
    method = make(model := Point())
    with pytest.raises(ValueError, match=rf"The loss of task `a` should be above 0.* {found}"):
        method.step(squares(scale))
    assert model.x.tolist() == [1.0, 2.0]
    assert found_first(method).numel() == 0
    method.step(squares((1.0, 1.0)))
    with pytest.raises(ValueError, match="The loss of task `a` should be above 0"):
        method.step(squares((-1e-3, 1.0)))


@every_method
def test_a_floor_is_a_share_of_the_first_labelled_loss_above_its_bound(make: Callable[..., Stepper[Any]]) -> None:
    method = make(Point(), lower_bounds={"a": 0.5})
    method.step(squares((1.0, 1.0), known=(1, 0)))
    assert found_first(method)[0] == 0.5
    assert found_first(method)[1].isnan()
    method.step(squares((3.0, 4.0)))
    assert found_first(method).tolist() == pytest.approx([0.5, 16.0])  # the second coordinate has not moved


@every_method
def test_a_floor_goes_on_where_it_was_saved(make: Callable[..., Stepper[Any]]) -> None:
    method = make(model := Point())
    method.step(squares((1.0, 1.0)))
    again = make(other := deepcopy(model))
    again.load_state_dict(deepcopy(method.state_dict()))
    for each in (method, again):
        each.step(squares((0.5, 2.0)))
    assert torch.equal(model.x, other.x)
    assert torch.equal(found_first(method), found_first(again))


def test_the_floor_of_a_stepper_is_the_logarithm_of_losses_that_are_raised() -> None:
    """The same steps as those of a closure that adds the constant kappa R itself, under a plain logarithm."""
    floored, plain = Point(), Point()
    method = sims(floored)
    twin = SIMS(plain, tau=TAU, outer=OUTER, inner=INNER)

    def raised(model: nn.Module) -> dict[str, Tensor]:
        x = model.get_parameter("x")
        return dict(zip("ab", x.square() + KAPPA * torch.tensor([1.0, 4.0], dtype=x.dtype), strict=True))

    for _ in range(20):
        method.step(squares((1.0, 1.0)))
        twin.step(raised)
    torch.testing.assert_close(floored.x, plain.x, rtol=0, atol=1e-12)


def test_a_floor_needs_a_reference_and_a_share_above_zero() -> None:
    with pytest.raises(ValueError, match=r"Parameter `reference` should be given"):
        FlooredLog(0.1)(torch.ones(2))
    for kappa in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="Parameter `kappa` should be positive and finite"):
            FlooredLog(kappa)
    with pytest.raises(ValueError, match="Parameter `transform` should need no reference here"):
        Aggregated(Point(), DBMTL(), outer=OUTER, transform=FlooredLog(0.1))
    assert not Log.needs_reference
