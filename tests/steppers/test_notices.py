"""What is allowed and probably not meant is a warning, once for each stepper."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LambdaLR

from helpers.methods import STEPPERS
from helpers.support import make_data, make_net, make_sims, mean_losses, parameters, sgd
from torchsims import SIMS, Stepper

DROPPED = "`backward` without an `update` were dropped. To accumulate gradients"
EQUAL = "stay equal.*`perturb`"
SMALL = [name for name in ("SIMS", "SIMS alternating joint", "EW", "FAMO", "MGDA") if name in STEPPERS]


@contextmanager
def one_warning(match: str) -> Iterator[None]:
    """Check that the body gives one warning, with a line of this file as its place."""
    with pytest.warns(UserWarning, match=match) as caught:
        yield
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("name", SMALL)
def test_a_second_backward_warns_once_and_drops_the_first(name: str) -> None:
    method, other, data = STEPPERS[name](make_net()), STEPPERS[name](make_net()), make_data()
    with one_warning(DROPPED):
        for _ in range(3):
            method.backward(mean_losses(), make_data(seed=1))
        method.backward(mean_losses(), data)
    method.update()
    other.step(mean_losses(), data)
    assert torch.equal(parameters(method.model), parameters(other.model))


def test_the_end_of_an_epoch_before_an_update_warns_too() -> None:
    method = make_sims(make_net())
    method.backward(mean_losses(), make_data())
    with one_warning(DROPPED):
        method.end_epoch()


def test_nothing_is_dropped_by_steps_failures_and_skipped_steps() -> None:
    method = make_sims(make_net())
    method.backward(mean_losses(), make_data())
    method.update()
    with pytest.raises(ValueError, match="should be finite"):
        method.backward(mean_losses((1.0, float("nan"), 1.0)), make_data())
    method.step(mean_losses(), make_data())


def adam(lr: float) -> Callable[..., Any]:
    return partial(Adam, lr=lr)


@pytest.mark.parametrize("make", [sgd, adam])
@pytest.mark.parametrize("evaluation", ["sequential", "joint"])
def test_equal_rates_without_a_perturbation_warn_once(make: Callable[[float], Any], evaluation: Any) -> None:
    method = make_sims(make_net(), outer=make(0.01), inner=make(0.01), evaluation=evaluation)
    with one_warning(EQUAL):
        method.step(mean_losses(), make_data())
    report = method.step(mean_losses(), make_data())
    assert report.losses == report.challenger


def heads_faster(named: list[tuple[str, nn.Parameter]]) -> SGD:
    groups: list[dict[str, Any]] = [{"params": [p], "lr": 0.1 if "heads" in name else 0.02} for name, p in named]
    return SGD(groups, lr=0.02)


APART: dict[str, dict[str, Any]] = {
    "a larger rate": {},
    "a perturbation": {"outer": sgd(0.1), "perturb": 0.1},
    "alternating": {"outer": sgd(0.1), "order": "alternating"},
    "another optimizer": {"outer": adam(0.1)},
    "a larger rate of a group": {"inner": heads_faster},
}


@pytest.mark.parametrize("way", APART)
def test_copies_that_part_do_not_warn(way: str) -> None:
    method = make_sims(make_net(), **APART[way])
    for _ in range(3):
        report = method.step(mean_losses(), make_data())
    assert report.losses != report.challenger


def test_rates_that_start_at_zero_do_not_warn() -> None:
    method = make_sims(make_net())
    schedules = [LambdaLR(optimizer, lambda step: step / 10) for optimizer in method.optimizers]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            method.step(mean_losses(), make_data())
            for schedule in schedules:
                schedule.step()


def test_a_run_that_goes_on_does_not_warn() -> None:
    method = make_sims(make_net(), outer=sgd(0.1))
    other: Stepper[Any] = SIMS(make_net(), tau=0.5, outer=sgd(0.1), inner=sgd(0.1), perturb=0.1)
    other.step(mean_losses(), make_data())
    method.load_state_dict(other.state_dict())
    method.step(mean_losses(), make_data())
