"""An update happens as a whole or not at all: an optimizer that raises takes the step back, on every rank."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam, Optimizer

from helpers.small_runs import KINDS, AnyMethod, batch, differences, network, snapshot, task_losses, trained
from torchsims import Scalarized
from torchsims.scalarizations import EW


def assert_undone(method: AnyMethod) -> None:
    """Check that a failing step changes nothing."""
    before = snapshot(method)
    with pytest.raises(ZeroDivisionError):
        method.step(task_losses, batch(40))
    assert differences(snapshot(method), before) == []
    assert all(p.grad is None for p in method.model.parameters())


def assert_next_steps_agree(method: AnyMethod, twin: AnyMethod) -> None:
    random = torch.get_rng_state()
    found = []
    for each in (method, twin):
        torch.set_rng_state(random)
        each.step(task_losses, batch(50))
        found.append(snapshot(each))
    assert differences(*found) == []


def divide_by_zero(*_: Any) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("name", KINDS)
def test_a_hook_of_an_optimizer_that_raises_takes_the_step_back(name: str, steps: int) -> None:
    method, twin = trained(name, steps), trained(name, steps)
    for optimizer in method.optimizers:
        for register in (optimizer.register_step_pre_hook, optimizer.register_step_post_hook):
            handle = register(divide_by_zero)
            assert_undone(method)
            handle.remove()
    assert_next_steps_agree(method, twin)


class Odd(SGD):
    """An optimizer with states of every kind, that fails halfway if it is told to."""

    def __init__(self, parameters: Any, **options: Any) -> None:
        super().__init__(parameters, **options)
        self.calls = 0
        self.fails = False

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        super().step(closure)
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["history"] = [*state.get("history", []), p.detach().sum()][-3:]
            state["history"][0] += 1
            state["counts"] = {"steps": state.get("counts", {"steps": 0})["steps"] + 1}
            self.param_groups[0]["lr"] *= 0.9
            if self.fails:
                raise ZeroDivisionError


def test_states_of_every_kind_are_restored() -> None:
    def make() -> Scalarized:
        torch.manual_seed(5)
        method = Scalarized(network(), EW(), outer=partial(Odd, lr=torch.tensor(1e-2), momentum=0.9))
        for seed in range(3):
            method.step(task_losses, batch(seed))
        return method

    method, twin = make(), make()
    assert isinstance(method.outer, Odd)
    group = method.outer.param_groups[0]
    method.outer.fails = True
    assert_undone(method)
    assert method.outer.calls == 3
    assert method.outer.param_groups[0] is group
    method.outer.fails = False
    assert_next_steps_agree(method, twin)


class Wrapper(Optimizer):
    """A wrapper of an optimizer, with a state of its own, as of slow weights."""

    def __init__(self, parameters: Any) -> None:
        self.base = Adam(parameters, lr=1e-2)
        super().__init__(self.base.param_groups, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.base.step()
        for p in self.param_groups[0]["params"]:
            self.state[p]["slow"] = p.detach().clone()
        if len(self.base.state[p]) and self.base.state[p]["step"] > 2:
            raise ZeroDivisionError


def test_an_optimizer_inside_of_another_is_restored_too() -> None:
    method = Scalarized(network(), EW(), outer=Wrapper)
    assert isinstance(method.outer, Wrapper)
    for seed in range(2):
        method.step(task_losses, batch(seed))
    base = snapshot(method, base=method.outer.base.state_dict())
    with pytest.raises(ZeroDivisionError):
        method.step(task_losses, batch(2))
    assert differences(snapshot(method, base=method.outer.base.state_dict()), base) == []


def test_half_a_step_is_restored_to_the_start_of_the_step() -> None:
    method, twin = trained("SIMS"), trained("SIMS")
    before = snapshot(method)
    method.backward(task_losses, batch(40))
    handle = method.optimizers[0].register_step_post_hook(divide_by_zero)
    with pytest.raises(ZeroDivisionError):
        method.update()
    assert differences(snapshot(method), before) == []
    with pytest.raises(RuntimeError, match="should follow `backward`"):
        method.update()
    handle.remove()
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", KINDS)
def test_an_optimizer_that_someone_else_steps_says_where_it_belongs(name: str) -> None:
    method = trained(name)
    before = snapshot(method)
    for optimizer in method.optimizers:
        with pytest.raises(RuntimeError, match=r"in its `update`\. Found a call of `\w+.step` from elsewhere"):
            optimizer.step()
    assert differences(snapshot(method), before) == []


@pytest.mark.parametrize("name", ["SIMS", "SIMS alternating", "EW"])
def test_no_copy_outlives_the_step(name: str) -> None:
    method = trained(name)
    assert not method._transaction._failure
    assert not method._transaction._unused
