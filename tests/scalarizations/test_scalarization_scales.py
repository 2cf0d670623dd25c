"""Which methods are independent of the units of the losses, and which are not."""

import pytest
import torch
from torch import Tensor

from helpers.histories import after, gradient, history, state, train
from helpers.methods import LOSS_LEVEL, LossLevel
from helpers.support import TASKS
from torchsims.scalarizations import DWA, FAMO, GLS

UNITS = torch.tensor([700.0, 1.0, 1e-4], dtype=torch.float64)
POWERS_OF_TWO = torch.tensor([2.0**-13, 2.0**20, 8.0])


def where_units_change(what: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", [case for case in LOSS_LEVEL if case.units == what], ids=lambda case: case.name
    )


def run(case: LossLevel, losses: Tensor, units: Tensor | float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the objectives after the warm-up and the weights (L_i times the slope) of a last step."""
    method = case.make(TASKS)
    objectives = train(method, units * losses[:-1], observed=units * after(losses[:-1]))
    return objectives[4:], gradient(method, units * losses[-1]) * units * losses[-1]


@where_units_change("nothing")
def test_units_change_nothing(case: LossLevel) -> None:
    losses = history(steps=9)
    for found, expected in zip(run(case, losses, UNITS), run(case, losses), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@where_units_change("nothing")
def test_powers_of_two_change_no_bit(case: LossLevel) -> None:
    losses = history(steps=9).float()
    for found, expected in zip(run(case, losses, POWERS_OF_TWO), run(case, losses), strict=True):
        assert torch.equal(found, expected)


@where_units_change("weights")
def test_units_change_the_weights(case: LossLevel) -> None:
    losses = history(steps=9)
    _, found = run(case, losses, UNITS)
    _, expected = run(case, losses)
    assert not torch.allclose(found / found.sum(), expected / expected.sum(), rtol=1e-2)


@where_units_change("length")
def test_units_change_the_length_of_a_step_and_not_its_direction(case: LossLevel) -> None:
    losses = history(steps=9)
    _, found = run(case, losses, UNITS)
    _, expected = run(case, losses)
    torch.testing.assert_close(found / found.sum(), expected / expected.sum())


def test_gls_is_unchanged_when_the_units_multiply_to_one() -> None:
    losses = history()
    units = torch.tensor([1e-4, 10.0, 1e3], dtype=torch.float64)
    torch.testing.assert_close(GLS()(units * losses), GLS()(losses))


@pytest.mark.parametrize("exponent", [-30.0, 30.0])
def test_gls_of_many_extreme_losses_stays_in_range(exponent: float) -> None:
    losses = torch.full((100,), 10.0**exponent)
    torch.testing.assert_close(GLS()(losses), losses[0], rtol=1e-4, atol=0)
    torch.testing.assert_close(gradient(GLS(), losses), torch.full((100,), 0.01), rtol=1e-4, atol=0)


@pytest.mark.parametrize("method", [FAMO, DWA])
def test_powers_of_two_change_no_bit_of_the_weights(method: type[FAMO] | type[DWA]) -> None:
    losses = history().float()
    one, two = method(), method()
    train(one, losses)
    train(two, POWERS_OF_TWO * losses, observed=POWERS_OF_TWO * after(losses))
    name = "w" if method is FAMO else "rate"
    assert torch.equal(state(one)[name], state(two)[name])
