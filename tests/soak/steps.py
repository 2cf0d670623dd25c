"""Random programs of steppers: what must be equal is equal, and a failed step changes nothing."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from helpers.interrupts import Case, interrupt_anywhere, look
from helpers.small_runs import differences, snapshot
from helpers.support import TASKS, Data, Net, make_data, make_net
from torchsims import SIMS, TaskLosses

STEPS = 4
INTERRUPTS = 20
"""How often a case interrupts a step."""


@dataclass(frozen=True)
class Setup:
    """A random network, data and options of SIMS."""

    network: dict[str, Any]
    options: dict[str, Any]
    seed: int
    batches: list[Data] = field(repr=False)

    @classmethod
    def draw(cls, chance: Random, **fixed: Any) -> "Setup":
        seed = chance.randrange(1 << 30)
        optimizer = chance.choice((SGD, partial(SGD, momentum=0.9), Adam))
        network = {
            "dropout": chance.choice((0.0, 0.3)),
            "batch_norm": chance.random() < 0.5,
            "frozen": chance.random() < 0.3,
            "width": chance.randint(2, 9),
        }
        options = {
            "tau": 10 ** chance.uniform(-1, 1),
            "prox": chance.choice((0.0, 0.1)),
            "augment": chance.choice((0.0, 0.1)),
            "order": chance.choice(("simultaneous", "alternating")),
            "evaluation": chance.choice(("sequential", "joint")),
            "perturb": 0.05,
            "outer": partial(optimizer, lr=0.01),
            "inner": partial(optimizer, lr=0.03),
        }
        batches = [make_data(12, seed=seed + step, share=chance.choice((1.0, 0.6))) for step in range(STEPS)]
        return cls({**network, **fixed.pop("network", {})}, {**options, **fixed}, seed, batches)

    def method(self, **changes: Any) -> SIMS:
        return SIMS(make_net(seed=self.seed, **self.network), **{**self.options, **changes})


def losses(model: nn.Module, data: Data, scales: tuple[float, ...] = (1.0, 1.0, 1.0)) -> TaskLosses:
    out = model(data.x)
    error = {task: scales[i] * (out[task] - data.y[:, i]).square() for i, task in enumerate(TASKS)}
    return TaskLosses(
        total={task: (error[task] * data.known[:, i]).sum() for i, task in enumerate(TASKS)},
        count={task: data.known[:, i].sum() for i, task in enumerate(TASKS)},
    )


def run(method: SIMS, setup: Setup, closure: Any = losses, parts: int = 1) -> None:
    torch.manual_seed(setup.seed)
    for batch in setup.batches:
        method.step(closure, *(batch.split([12 // parts] * parts)))


def joint_is_sequential(chance: Random, folder: Path) -> None:
    """Both evaluations give the same numbers."""
    setup = Setup.draw(chance)
    one, other = (setup.method(evaluation=name) for name in ("sequential", "joint"))
    run(one, setup)
    run(other, setup)
    torch.testing.assert_close(values(one), values(other), rtol=1e-9, atol=1e-12)


def powers_of_two_change_no_bit(chance: Random, folder: Path) -> None:
    """Losses times powers of two change no bit of the model."""
    setup = Setup.draw(chance)
    scales = tuple(2.0 ** chance.randint(-60, 60) for _ in TASKS)
    one, other = setup.method(), setup.method()
    run(one, setup)
    run(other, setup, partial(losses, scales=scales))
    assert torch.equal(values(one), values(other)), f"{scales}"


def split_is_whole(chance: Random, folder: Path) -> None:
    """Micro-batches are one large step; without dropout and batch statistics, which see the parts."""
    optimizer = partial(SGD, lr=0.01)  # Adam turns rounding into whole steps where a gradient is zero
    setup = Setup.draw(chance, network={"dropout": 0.0, "batch_norm": False}, outer=optimizer, inner=optimizer)
    one, other = setup.method(), setup.method()
    run(one, setup)
    run(other, setup, parts=chance.choice((2, 3, 4)))
    torch.testing.assert_close(values(one), values(other), rtol=1e-7, atol=1e-9)


def failures_change_nothing(chance: Random, folder: Path) -> None:
    """A closure that raises, or returns a bad loss, in any of its calls leaves everything as it was."""
    setup = Setup.draw(chance)
    method = setup.method()
    run(method, setup)
    call, bad = chance.randrange(6), chance.choice((float("nan"), float("inf"), 0.0, -1.0, None))
    calls = 0

    def spoiled(model: nn.Module, data: Data) -> TaskLosses:
        nonlocal calls
        calls += 1
        found = losses(model, data)
        if calls - 1 == call:
            if bad is None:
                raise KeyError("a closure that fails")
            assert isinstance(found.total, dict)
            found.total[chance.choice(TASKS)] *= bad
        return found

    before = snapshot(method)
    try:
        method.step(spoiled, *setup.batches[0].split([6, 6]))
    except (KeyError, ValueError):
        assert differences(before, snapshot(method)) == []
    else:
        assert calls <= call or bad in (0.0, -1.0), "a bad loss was not noticed"  # a part of a loss may be negative


def interrupts_change_all_or_nothing(chance: Random, folder: Path) -> None:
    """A step interrupted at random bytecodes, of any library, leaves all as before it or as after it."""
    setup = Setup.draw(chance, keep_random_iterate=True)
    *before, batch = setup.batches
    parts = batch.split([12]) if chance.random() < 0.5 else batch.split([6, 6])

    def prepare() -> SIMS:
        method = setup.method()
        torch.manual_seed(setup.seed)
        for each in before:
            method.step(losses, each)
        return method

    case = Case(prepare, lambda method: method.step(losses, *parts), look)
    outcomes = interrupt_anywhere(case, INTERRUPTS, seed=chance.randrange(1 << 30))
    assert outcomes.keys() <= {"before", "after", "not reached"}, f"{setup}: {dict(outcomes)}"
    assert outcomes["before"] + outcomes["after"], "no interrupt came during the step"


def values(method: SIMS) -> Tensor:
    """Return all parameters of the model and of its challenger."""
    assert isinstance(method.model, Net)
    model = [p.detach().reshape(-1).clone() for p in method.model.parameters()]
    with method.challenger():
        return torch.cat([*model, *(p.detach().reshape(-1).clone() for p in method.model.parameters())])
