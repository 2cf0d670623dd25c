"""Changing the unit of a loss changes nothing for SIMS, and something for the methods it is compared with."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch.optim import Adam

from helpers.methods import SCALARIZED
from helpers.support import TASKS, make_data, make_net, make_sims, mean_losses, parameters
from torchsims import FOOPS, Scalarized, Stepper, transforms
from torchsims.scalarizations import LogMerit

UNITS = [(1e6, 1.0, 1e-6), (1e-6, 3e5, 0.7), (123.4, 1e-3, 1e6)]
BALANCED_UNITS = [(1e6, 1.0, 1e-6), (5.0, 0.1, 2.0)]
POWERS = [(2.0**20, 1.0, 2.0**-20), (2.0**-7, 2.0**3, 2.0**13)]

Maker = Callable[[torch.nn.Module], Stepper[Any]]
outer, inner = partial(Adam, lr=1e-3), partial(Adam, lr=5e-3)


@cache
def train(make: Maker, scales: tuple[float, ...], dtype: torch.dtype = torch.float64, steps: int = 100) -> torch.Tensor:
    model = make_net(dtype, dropout=0.1)
    method = make(model)
    data = make_data(dtype=dtype)
    for step in range(steps):
        method.step(mean_losses(scales), data)
        if step == steps // 2:
            method.end_epoch()
    return parameters(model)


def sims(**options: Any) -> Maker:
    return lambda model: make_sims(model, **{"outer": outer, "inner": inner, **options})


def scalarized(name: str) -> Maker:
    return partial(SCALARIZED[name], outer=outer)


SCALE_FREE: dict[str, Maker] = {
    "SIMS": sims(),
    "SIMS alternating": sims(order="alternating", perturb=0.01),
    "SIMS augmented": sims(augment=0.1),
    "SIMS preferred": sims(augment=0.1, preference={"a": 3.0}, transform=transforms.FlooredLog(0.1)),
    "SIMS with 2 ln x": sims(transform=transforms.Log(a=2.0)),
    "LogMerit": scalarized("LogMerit"),
    "LogMerit preferred": lambda model: Scalarized(
        model, LogMerit(0.7, floor=0.1, preference={"a": 3.0}, tasks=TASKS), outer=outer
    ),
    "STCH-normalized": scalarized("STCH-normalized"),
}


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("name", SCALE_FREE)
def test_a_hundred_steps_do_not_depend_on_the_units(name: str, units: tuple[float, ...]) -> None:
    expected = train(SCALE_FREE[name], (1.0, 1.0, 1.0))
    torch.testing.assert_close(train(SCALE_FREE[name], units), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("units", POWERS)
@pytest.mark.parametrize("name", SCALE_FREE)
def test_powers_of_two_change_no_bit_in_single_precision(name: str, units: tuple[float, ...]) -> None:
    expected = train(SCALE_FREE[name], (1.0, 1.0, 1.0), torch.float32)
    assert torch.equal(train(SCALE_FREE[name], units, torch.float32), expected)


@pytest.mark.parametrize("units", BALANCED_UNITS)
def test_gls_does_not_depend_on_units_that_multiply_to_one(units: tuple[float, ...]) -> None:
    gls = scalarized("GLS")
    torch.testing.assert_close(train(gls, units), train(gls, (1.0, 1.0, 1.0)), rtol=0, atol=1e-9)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    "make",
    [
        scalarized("EW"),
        scalarized("STCH"),
        lambda model: FOOPS(model, tau=0.5, outer=outer, inner=inner),
        sims(transform=transforms.Power(2.0)),
        sims(transform=transforms.Power(0.5)),
        sims(transform=transforms.Asinh(0.1)),
        sims(transform=transforms.Asinh(0.01)),
    ],
    ids=["EW", "STCH", "FOOPS", "x^2", "sqrt", "asinh(x/0.1)", "asinh(x/0.01)"],
)
def test_the_law_fails_for_every_other_function_of_the_losses(make: Maker, units: tuple[float, ...]) -> None:
    """Theorem 2: only a ln x + b keeps it."""
    difference = train(make, units, steps=30) - train(make, (1.0, 1.0, 1.0), steps=30)
    assert difference.abs().max() > 1e-3
