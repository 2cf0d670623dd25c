"""Random numbers of any generator are the same in all passes of a step, and a failed step draws none."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers.support import DIMENSION, Data, make_data, make_net, make_sims, mean_losses, parameters, sgd
from torchsims import Aggregated, Scalarized, Stepper
from torchsims.aggregations import MGDA
from torchsims.scalarizations import FAMO

OWN: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch.Generator().manual_seed(1),
    "numpy": lambda: np.random.default_rng(1),
    "numpy, Mersenne twister": lambda: np.random.Generator(np.random.MT19937(1)),
    "numpy, old": lambda: np.random.RandomState(1),
    "Python": lambda: random.Random(1),
}
DRAW: dict[str, Callable[[Any], float]] = {
    "torch": lambda g: float(torch.rand((), generator=g)),
    "numpy": lambda g: float(g.random()),
    "numpy, Mersenne twister": lambda g: float(g.normal()),
    "numpy, old": lambda g: float(g.normal()),
    "Python": lambda g: g.random(),
}
GLOBAL: dict[str, Callable[[], float]] = {
    "torch": lambda: float(torch.rand(())),
    "numpy": lambda: float(np.random.rand()),
    "numpy, one of a pair": lambda: float(np.random.randn()),
    "Python": random.random,
    "Python, one of a pair": lambda: random.gauss(0, 1),
}
X = torch.randn(4, DIMENSION, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

STEPPERS: dict[str, Callable[..., Stepper[Any]]] = {
    "sequential": make_sims,
    "joint": lambda model, **options: make_sims(model, evaluation="joint", **options),
    "alternating": lambda model, **options: make_sims(model, order="alternating", **options),
    "FAMO": lambda model, **options: Scalarized(model, FAMO(), outer=sgd(), **options),
    "MGDA": lambda model, **options: Aggregated(model, MGDA(), outer=sgd(), **options),
}


def losses(model: nn.Module, x: Tensor, draw: Callable[[], float]) -> dict[str, Tensor]:
    """Return losses with noise in the inputs."""
    out = model(x + draw())
    return {task: (out[task] - 1).square().mean() for task in out}


def assert_one_pass(method: Stepper[Any], draw: Callable[[], float]) -> None:
    """Check that all passes of a step draw the same, that a failed step draws nothing, and the next one anew."""
    calls: list[float] = []
    fails = False

    def closure(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
        calls.append(draw())
        out = model(x + calls[-1])
        return {task: (out[task] - 1).square().mean() * (torch.nan if fails else 1) for task in out}

    draw()  # of the pairs that some generators draw, the second is left
    seen = []
    for step in range(3):
        fails = step == 1
        calls.clear()
        if fails:
            with pytest.raises(ValueError, match="should be finite"):
                method.step(closure, X)
        else:
            method.step(closure, X)
        assert len(set(calls)) == 1
        seen.append(calls[0])
    assert seen[0] != seen[1] == seen[2]


@pytest.mark.parametrize("name", STEPPERS)
@pytest.mark.parametrize("kind", OWN)
def test_given_generators_draw_the_same_in_every_pass(kind: str, name: str) -> None:
    generator = OWN[kind]()
    method = STEPPERS[name](make_net(), generators=[generator])
    assert_one_pass(method, lambda: DRAW[kind](generator))


@pytest.mark.parametrize("name", STEPPERS)
@pytest.mark.parametrize("kind", GLOBAL)
def test_global_generators_draw_the_same_in_every_pass(kind: str, name: str) -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    assert_one_pass(STEPPERS[name](make_net()), GLOBAL[kind])


def test_the_global_generator_of_numpy_may_be_of_any_kind() -> None:
    before = np.random.mtrand.get_bit_generator()
    try:
        np.random.mtrand.set_bit_generator(np.random.PCG64(0))
        assert_one_pass(make_sims(make_net()), GLOBAL["numpy"])
    finally:
        np.random.mtrand.set_bit_generator(before)


@pytest.mark.parametrize("kind", ["numpy, one of a pair", "Python, one of a pair"])
def test_a_pair_of_normal_numbers_may_be_split_between_steps(kind: str) -> None:
    """The second number of a pair is kept outside of the memory that tells whether a generator has drawn."""
    np.random.seed(0)
    random.seed(0)
    method = make_sims(make_net())
    draw = GLOBAL[kind]
    for extra in (0, 1, 0, 0, 1, 1):
        for _ in range(extra):
            draw()
        calls: list[float] = []

        def closure(model: nn.Module, x: Tensor, calls: list[float] = calls) -> dict[str, Tensor]:
            calls.append(draw())
            out = model(x + calls[-1])
            return {task: (out[task] - 1).square().mean() for task in out}

        method.step(closure, X)
        assert len(set(calls)) == 1


def test_the_state_of_pythons_generator_is_read_only_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CPython, whose generator's memory is where the steppers look; elsewhere it is read in every step."""
    method = make_sims(make_net())
    method.step(mean_losses(), make_data(4))
    reads = iter(range(9))
    read = random.getstate
    monkeypatch.setattr(random, "getstate", lambda: (next(reads), read())[1])
    method.step(mean_losses(), make_data(4))
    random.random()
    method.step(mean_losses(), make_data(4))
    assert next(reads) == 1  # one call of two steps


@pytest.mark.parametrize("spare", [None, 0.5])
def test_a_failed_step_restores_a_state_that_was_set_by_hand(spare: float | None) -> None:
    """One with the same words as before, and another second number of a pair."""
    random.seed(0)
    method = make_sims(make_net())
    method.step(mean_losses(), make_data(4))
    version, words, _ = random.getstate()
    random.setstate((version, words, spare))
    before = random.getstate()

    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        random.gauss(0, 1)
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        method.step(closure, make_data(4))
    assert random.getstate() == before


class Noisy(nn.Module):
    """A network with a random generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = make_net()
        self.generator = torch.Generator().manual_seed(3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found: dict[str, Tensor] = self.net(x + torch.rand((), generator=self.generator))
        return found


def test_generators_of_modules_need_not_be_given() -> None:
    found = []
    for evaluation in ("sequential", "joint"):
        model = Noisy()
        method = make_sims(model, evaluation=evaluation, perturb=0.1)
        merits = [
            method.step(lambda model, x: [loss.square().mean() for loss in model(x).values()], X).merit for _ in "ab"
        ]
        found.append((parameters(model), merits, model.generator.get_state()))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
    assert torch.equal(found[0][2], found[1][2])


def test_equal_copies_see_equal_losses() -> None:
    generator = np.random.default_rng(0)
    method = make_sims(make_net(), tau=2.0, generators=[generator])
    report = method.step(lambda model, x: [(out + generator.random()).square().mean() for out in model(x).values()], X)
    assert report.losses == report.challenger


def test_what_is_no_generator_is_refused() -> None:
    for make in STEPPERS.values():
        with pytest.raises(TypeError, match=r"`generators` should hold .* Found one of type `int`\."):
            make(make_net(), generators=[3])
