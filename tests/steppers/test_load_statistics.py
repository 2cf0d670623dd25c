"""A new training that goes on from another one takes over what its method knows of the losses, and nothing else."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from torchsims import SIMS, Scalarized
from torchsims.normalizers import EMA
from torchsims.scalarizations import GLS, LogMerit
from torchsims.steppers import Stepper

TASKS = ("a", "b")


def losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    return dict(zip(TASKS, (model(x) - 3).square().mean(0), strict=True))


def sims(model: nn.Module, p: float) -> Stepper[Any]:
    rates = partial(Adam, lr=0.1), partial(Adam, lr=0.2)
    return SIMS(model, preference={"a": p}, normalize=EMA(), outer=rates[0], inner=rates[1])


def log_merit(model: nn.Module, p: float) -> Stepper[Any]:
    return Scalarized(model, LogMerit(preference={"a": p}), outer=partial(Adam, lr=0.1))


def gls(model: nn.Module, p: float) -> Stepper[Any]:
    return Scalarized(model, GLS(preference={"a": p}), outer=partial(Adam, lr=0.1))


def trained(make: Any) -> tuple[nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    method = make(model, 1.0)
    for _ in range(5):
        method.step(losses, torch.randn(4, 2))
    return model, method.state_dict()


def first_losses(state: dict[str, Any]) -> Tensor:
    first: Tensor = state["first_losses"]["first"] if "first_losses" in state else state["scalarization"]["reference"]
    return first


@pytest.mark.parametrize("make", [sims, log_merit])
def test_a_preference_stays_relative_to_the_first_losses_of_the_first_training(make: Any) -> None:
    model, state = trained(make)
    goes_on, anew = make(model, 4.0), make(model, 4.0)
    goes_on.load_statistics(state)
    batch = torch.randn(4, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    reports = []
    for method in (goes_on, anew):
        model.load_state_dict(before)
        reports.append(method.step(losses, batch))
        assert method.optimizers[0].state_dict()["state"][0]["step"] == 1  # no moments are taken over
    assert torch.equal(first_losses(goes_on.state_dict()), first_losses(state))
    assert not torch.equal(first_losses(anew.state_dict()), first_losses(state))
    assert reports[0].weights != reports[1].weights


@pytest.mark.parametrize(("make", "other"), [(sims, log_merit), (log_merit, gls), (log_merit, sims)])
def test_a_state_that_does_not_fit_changes_nothing(make: Any, other: Any) -> None:
    model, state = trained(other)
    method = make(model, 1.0)
    method.step(losses, torch.randn(4, 2))
    before = first_losses(method.state_dict()).clone()
    with pytest.raises(ValueError, match="should"):
        method.load_statistics(state)
    assert torch.equal(first_losses(method.state_dict()), before)
