"""The loss-level methods under test, each with settings away from its defaults, and a history that trains them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from torchsims import scalarizations
from torchsims.scalarizations import (
    DWA,
    EW,
    FAMO,
    GLS,
    IMTLL,
    RLW,
    STCH,
    UW,
    Chebyshev,
    LogMerit,
    Scalarization,
)

TASKS = (0, 1, 2)
NAMES = ("a", "b", "c")
START = torch.tensor([0.1, -0.2, 0.5], dtype=torch.float64)
WEIGHTS = (0.5, 2.0, 1.5)
IDEAL = (0.1, -0.3, 0.2)
NOW = torch.tensor([0.03, 0.8, 21.0], dtype=torch.float64)
STEPS_PER_EPOCH = 2


@dataclass(frozen=True)
class Case:
    """A method; ``make`` takes which of the three tasks it has, in their order."""

    method: str
    make: Callable[[Sequence[int]], Scalarization]
    option: str = ""

    @property
    def name(self) -> str:
        return self.method + self.option


def names(tasks: Sequence[int]) -> list[str]:
    return [NAMES[i] for i in tasks]


def pick(values: Sequence[float], tasks: Sequence[int]) -> list[float]:
    return [values[i] for i in tasks]


CASES = [
    Case("EW", lambda tasks: EW()),
    Case("RLW", lambda tasks: RLW(seed=3)),
    Case("UW", lambda tasks: UW(names(tasks), start=START[list(tasks)], dtype=torch.float64)),
    Case("IMTLL", lambda tasks: IMTLL(names(tasks), start=START[list(tasks)], dtype=torch.float64)),
    Case("DWA", lambda tasks: DWA(temperature=0.7)),
    Case("GLS", lambda tasks: GLS()),
    Case("STCH", lambda tasks: STCH(0.7)),
    Case("STCH", lambda tasks: STCH(0.7, weights=pick(WEIGHTS, tasks), ideal=pick(IDEAL, tasks)), "-weighted"),
    Case("STCH", lambda tasks: STCH(0.7, normalize=True, warmup_epochs=2), "-normalized"),
    Case("STCH", lambda tasks: STCH(0.7, normalize=True, warmup_epochs=9), "-warmup"),
    Case("STCH", lambda tasks: STCH(0.7, normalize=True, warmup_epochs=0), "-at-once"),
    Case("Chebyshev", lambda tasks: Chebyshev()),
    Case("Chebyshev", lambda tasks: Chebyshev(pick(WEIGHTS, tasks), pick(IDEAL, tasks)), "-weighted"),
    Case("FAMO", lambda tasks: FAMO(gamma=0.01, lr=0.3)),
    Case("LogMerit", lambda tasks: LogMerit(0.7, decay=0.6)),
    Case("LogMerit", lambda tasks: LogMerit(0.7, decay=0.6, augment=0.2), "-augmented"),
]
METHODS = [name for name in scalarizations.__all__ if name not in ("Scalarization", "from_torchjd")]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def history(*shape: int, steps: int = 6, seed: int = 0) -> Tensor:
    """Return losses of very different sizes, `steps x ... x 3`."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(steps, *shape, 3, generator=generator, dtype=torch.float64)
    return torch.tensor([0.02, 1.0, 30.0], dtype=torch.float64) * noise.exp()


def after(losses: Tensor) -> Tensor:
    """Return what the losses of a step become when the model has made it: large ones improve most."""
    return losses / (1 + losses.log1p())


def train(
    method: Scalarization, losses: Tensor, labelled: Tensor | None = None, observed: Tensor | None = None
) -> Tensor:
    """Run a method through a history and return its objectives, `steps x ...`."""
    observed = after(losses) if observed is None else observed
    objectives = []
    for t in range(len(losses)):
        now = None if labelled is None else labelled[t]
        objectives.append(method(losses[t], now).detach())
        method.observe(observed[t], now)
        if t % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1:
            method.end_epoch()
    return torch.stack(objectives) if objectives else losses.new_empty(0)


def trained(case: Case, losses: Tensor | None = None) -> Scalarization:
    """Return a method with a past."""
    method = case.make(TASKS)
    train(method, history() if losses is None else losses)
    return method


def gradient(method: Scalarization, losses: Tensor, labelled: Tensor | None = None) -> Tensor:
    """Return the derivative of the objective by the losses, without a trace in the method."""
    losses = losses.clone().requires_grad_()
    training = method.training
    (result,) = torch.autograd.grad(method.eval()(losses, labelled).sum(), losses)
    method.train(training)
    return result


def state(method: torch.nn.Module) -> dict[str, Tensor]:
    """Return a copy of everything a method remembers."""
    return {name: torch.as_tensor(value).clone() for name, value in method.state_dict().items()}


def assert_same_state(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=0, equal_nan=True, msg=f"{name} differs")
