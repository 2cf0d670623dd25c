"""Ctrl-C at any bytecode leaves all as before the step or as after it, never something in between."""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from helpers.interrupts import Case, contents, in_package, interrupt_anywhere, interrupt_everywhere, look
from helpers.support import DIMENSION
from torchsims import SIMS, Aggregated, Scalarized, Stepper
from torchsims.aggregations import MGDA
from torchsims.scalarizations import EW, FAMO

X = torch.randn(4, DIMENSION, generator=torch.Generator().manual_seed(0))
EXCHANGE = ("sims.py", "_base.py", "_two_copies.py", "_copies.py", "_transaction.py", "_optimizers.py", "contextlib.py")
"""The files that change the values of the model; tests/soak interrupts the others too."""


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(DIMENSION, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))


def losses(model: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = (model(x) - torch.rand(()) - 1).square().mean(0)
    return found


def make_sims(**options: Any) -> SIMS:
    factories: dict[str, Any] = {"outer": partial(SGD, lr=0.1, momentum=0.9), "inner": partial(Adam, lr=0.1)}
    return SIMS(network(), **factories, perturb=0.1, keep_random_iterate=True, **options)


def make_aggregated(**options: Any) -> Aggregated:
    return Aggregated(network(), MGDA(), outer=partial(Adam, lr=0.1), **options)


MAKE: dict[str, Callable[[], Stepper[Any]]] = {
    "sequential": make_sims,
    "sequential alternating": partial(make_sims, order="alternating"),
    "joint": partial(make_sims, evaluation="joint"),
    "joint alternating": partial(make_sims, evaluation="joint", order="alternating"),
    "EW": lambda: Scalarized(network(), EW(), outer=partial(Adam, lr=0.1)),
    "FAMO": lambda: Scalarized(network(), FAMO(), outer=partial(Adam, lr=0.1)),
    "MGDA": make_aggregated,
    "MGDA by features": partial(make_aggregated, shared="representation", features="2"),
}


def prepare(name: str) -> Stepper[Any]:
    """Return a method that has taken two steps."""
    method = MAKE[name]()
    for _ in range(2):
        method.step(losses, X)
    return method


def step(method: Stepper[Any]) -> None:
    method.step(losses, X)


def exchanges(code: CodeType) -> bool:
    return in_package(code) and code.co_filename.endswith(EXCHANGE)


def assert_whole(outcomes: Counter[str], *allowed: str) -> None:
    print(f"{outcomes.total()} interrupts: {dict(outcomes.most_common(10))}")
    assert outcomes.keys() <= {"before", "after", *allowed}, dict(outcomes.most_common(5))


traced = pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 reports no bytecode to a tracer.")


@pytest.mark.parametrize("name", ["sequential", "sequential alternating", "joint", "joint alternating"])
@traced
def test_a_step_interrupted_at_every_bytecode_happens_or_does_not(name: str) -> None:
    outcomes = interrupt_everywhere(Case(partial(prepare, name), step, look), exchanges)
    assert_whole(outcomes)
    assert outcomes["before"] > 500  # how many bytecodes there are depends on the version of Python
    assert outcomes["after"]


@pytest.mark.parametrize("name", MAKE)
@traced
def test_a_step_interrupted_at_any_bytecode_of_any_library_happens_or_does_not(name: str) -> None:
    case = Case(partial(prepare, name), step, look)
    assert_whole(interrupt_anywhere(case, count=60), "not reached")


@traced
def test_the_modes_around_an_interrupted_step_are_as_before() -> None:
    case = Case(partial(prepare, "sequential"), step, look)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert_whole(interrupt_anywhere(case, count=100), "not reached")


@pytest.mark.parametrize("name", ["sequential", "sequential alternating", "joint"])
@traced
def test_an_update_interrupted_anywhere_happens_or_undoes_the_step(name: str) -> None:
    def halfway() -> Stepper[Any]:
        method = prepare(name)
        method.backward(losses, X)
        return method

    case = Case(halfway, lambda method: method.update(), look, known={"undone": look(prepare(name))})
    outcomes = interrupt_anywhere(case, count=60, watch=exchanges)
    assert_whole(outcomes, "undone")
    assert outcomes["undone"] > 40


@pytest.mark.parametrize("lend", ["challenger", "random_iterate"])
@pytest.mark.parametrize("name", ["sequential", "joint"])
@traced
def test_a_lent_model_comes_back_after_an_interrupt_at_every_bytecode(name: str, lend: str) -> None:
    def evaluate(method: Any) -> None:
        with getattr(method, lend)() as model:
            model(X)

    outcomes = interrupt_everywhere(Case(partial(prepare, name), evaluate, seen_from_outside), exchanges)
    assert_whole(outcomes)
    assert outcomes.total() > 100


def seen_from_outside(method: Stepper[Any]) -> list[Any]:
    """Return the model, and that it is not lent; its copy's batch statistics may have seen a batch or not."""
    method.state_dict()
    copy = [p.detach() for p in method._challenger.parameters]  # type: ignore[attr-defined]
    return [torch.is_grad_enabled(), *contents([method.model.state_dict(), copy])]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise, which a process in the background may ignore."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_waits_until_a_step_is_undone() -> None:
    """The second interrupt, a signal, comes while the first one is being dealt with."""
    method = prepare("sequential")
    before = look(method)
    calls = 0

    def closure(model: nn.Module, x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 2:
            sys.setprofile(press_again)
            raise KeyboardInterrupt
        return losses(model, x)

    pressed = []

    def press_again(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "restore_model":
            sys.setprofile(None)
            pressed.append(frame.f_code)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        method.backward(closure, X)
    assert pressed
    assert look(method) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
