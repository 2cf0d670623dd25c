"""`torch.compile` of a model or of a closure: the same steps, and nothing is compiled after the first ones."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from helpers.methods import LOSSES, Maker, scalarized, two_copies
from helpers.support import parameters
from torchsims import SIMS

METHODS: dict[str, Maker] = {
    "EW": scalarized(LOSSES["EW"].make),
    "LogMerit": scalarized(LOSSES["LogMerit"].make),
    "SIMS": two_copies(SIMS),
    "SIMS joint": two_copies(SIMS, evaluation="joint"),
}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    out = model(x)
    return {"near": out[:, 0].square().mean(), "far": (out[:, 1] - 1).square().mean()}


def compiled(value: Any) -> Any:
    return torch.compile(value, backend="eager")  # traced, guarded and cached as with any other


def train(name: str, prepare: Callable[[nn.Module], nn.Module], closure: Callable[..., Any]) -> tuple[Tensor, int]:
    """Return the parameters after a few steps, and how many graphs were compiled after the second one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    method = METHODS[name](prepare(model), tasks=("near", "far"))
    before = 0
    for step in range(5):
        if step == 2:
            before = counters["stats"]["unique_graphs"]
        method.step(closure, torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(step)))
    return parameters(model), counters["stats"]["unique_graphs"] - before


@pytest.mark.parametrize("name", METHODS)
def test_a_compiled_model_and_a_compiled_closure_take_the_same_steps_and_are_compiled_once(name: str) -> None:
    expected, _ = train(name, lambda model: model, losses)
    for prepare, closure in ((compiled, losses), (lambda model: model, compiled(losses))):
        counters.clear()
        found, later = train(name, prepare, closure)
        assert counters["stats"]["unique_graphs"] > 0
        assert later == 0
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
