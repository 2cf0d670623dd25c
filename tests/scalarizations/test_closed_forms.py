"""Closed forms of derivatives: those of autograd, for every method that offers one."""

import pytest
import torch
from torch import Tensor

from helpers.methods import LOSS_LEVEL, LossLevel
from helpers.support import TASKS

EVERY = (torch.tensor([True, True, True]), torch.tensor([True, False, True]), None)
WITH = [case for case in LOSS_LEVEL if case.make(TASKS).closed_form(torch.ones(len(TASKS)), None) is not None]


def losses(step: int) -> Tensor:
    return torch.tensor([0.3, 50.0, 4e-3], dtype=torch.float64) * (1 + 0.3 * step * torch.arange(3))


def test_methods_of_a_step_without_a_second_graph() -> None:
    assert {case.method for case in WITH} >= {"EW", "FixedWeights", "LogMerit", "GLS", "FAMO", "DWA", "RLW", "UWSO"}


@pytest.mark.parametrize("case", WITH, ids=lambda case: case.name)
@pytest.mark.parametrize("known", [0, 1, 2], ids=["all known", "one unknown", "not asked"])
def test_a_closed_form_is_the_derivative_of_its_objective(case: LossLevel, known: int) -> None:
    closed, graph = case.make(TASKS), case.make(TASKS)
    labelled = EVERY[known]
    for step in range(3):
        x = losses(step) if labelled is None else losses(step).where(labelled, 1)
        found = closed.closed_form(x, labelled)
        assert found is not None
        value, slopes = found
        leaf = x.clone().requires_grad_()
        objective = graph(leaf, labelled)
        (gradient,) = torch.autograd.grad(objective, leaf)
        assert not slopes.requires_grad
        torch.testing.assert_close(value, objective.detach(), rtol=1e-13, atol=0)
        torch.testing.assert_close(slopes, gradient, rtol=1e-12, atol=1e-15)
        if labelled is not None:
            assert not slopes[~labelled].any()


@pytest.mark.parametrize("case", WITH, ids=lambda case: case.name)
def test_a_closed_form_leaves_the_statistics_of_its_objective(case: LossLevel) -> None:
    closed, graph = case.make(TASKS), case.make(TASKS)
    for step in range(3):
        closed.closed_form(losses(step), None)
        graph(losses(step))
        if closed.observes:
            closed.observe(losses(step + 1))
            graph.observe(losses(step + 1))
    first, second = closed.state_dict(), graph.state_dict()
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("case", WITH, ids=lambda case: case.name)
def test_a_closed_form_changes_nothing_in_evaluation_mode(case: LossLevel) -> None:
    method = case.make(TASKS)
    method.closed_form(losses(0), None)
    before = {name: torch.as_tensor(value).clone() for name, value in method.state_dict().items()}
    method.eval()
    method.closed_form(losses(1), None)
    for name, value in method.state_dict().items():
        torch.testing.assert_close(torch.as_tensor(value), before[name], rtol=0, atol=0, equal_nan=True)
