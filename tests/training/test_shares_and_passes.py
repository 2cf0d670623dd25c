"""What a page says of every method in one unit: the share of a task in a step, and the passes that a step takes."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchsims import TaskLosses
from torchsims.methods import Method
from torchsims.training.trainer import Trainer

BATCH = torch.randn(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
TASKS = ("a", "b", "c")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(4, 6, dtype=torch.float64)
        self.heads = nn.ModuleDict({task: nn.Linear(6, 1, dtype=torch.float64) for task in TASKS})

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        hidden = self.trunk(x).tanh()
        return {task: head(hidden)[:, 0] for task, head in self.heads.items()}


def squares(model: nn.Module, x: Tensor, factors: tuple[float, ...] = (1.0, 4.0, 32.0)) -> TaskLosses:
    outputs = zip(factors, model(x).items(), strict=True)
    errors = {task: factor * (out - x[:, 0]).square() for factor, (task, out) in outputs}
    return TaskLosses({task: e.sum() for task, e in errors.items()}, {task: len(e) for task, e in errors.items()})


def first_shares(method: str, factors: tuple[float, ...], steps: int = 3) -> dict[str, list[float]]:
    torch.manual_seed(0)
    trainer = Trainer(
        Method(method).build(Net(), TASKS, lr=1e-2), lambda m, x: squares(m, x, factors), steps=steps, warmup=0.0
    )
    for _ in range(steps):
        trainer.step(BATCH)
        trainer.end_epoch({})
    return trainer.history.influence


@pytest.mark.parametrize("method", ["ew", "uw", "gls", "stch", "foops", "sims", "logmerit", "mgda", "sims:floor=0.1"])
def test_shares_sum_to_one(method: str) -> None:
    shares = first_shares(method, (1.0, 4.0, 32.0))
    assert list(shares) == list(TASKS)
    for epoch in zip(*shares.values(), strict=True):
        assert sum(epoch) == pytest.approx(1.0)
        assert min(epoch) >= 0.0


def test_shares_are_those_of_the_formulas() -> None:
    torch.manual_seed(0)
    losses = {task: float(loss.detach()) / len(BATCH) for task, loss in squares(Net(), BATCH).total.items()}  # type: ignore[union-attr]
    whole = sum(losses.values())
    for method, expected in {
        "ew": {task: loss / whole for task, loss in losses.items()},
        "foops:tau=1e6": {task: loss / whole for task, loss in losses.items()},  # equal weights of the losses
        "gls": dict.fromkeys(TASKS, 1 / 3),  # every logarithm has the same weight
        "sims:tau=1e6": dict.fromkeys(TASKS, 1 / 3),
    }.items():
        first = {task: curve[0] for task, curve in first_shares(method, (1.0, 4.0, 32.0), steps=1).items()}
        assert first == pytest.approx(expected, rel=1e-5), method


@pytest.mark.parametrize("method", ["gls", "sims", "logmerit", "sims:floor=0.1"])
def test_the_shares_of_a_method_without_units_have_none(method: str) -> None:
    one, other = first_shares(method, (1.0, 4.0, 32.0)), first_shares(method, (1024.0, 4.0, 0.25))
    for task in TASKS:
        assert one[task] == pytest.approx(other[task], rel=1e-9)
    first, second = (first_shares("ew", factors)["a"][0] for factors in ((1.0, 4.0, 32.0), (1024.0, 4.0, 0.25)))
    assert second > 2 * first


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("method", "evaluation"),
    [
        *((text, "auto") for text in ("ew", "gls", "famo", "sims", "sims:order=alternating", "mgda", "mgda:every=3")),
        *(("sims", evaluation) for evaluation in ("joint", "sequential")),
    ],
)
def test_passes_are_those_that_a_step_takes(method: str, evaluation: str, parts: int) -> None:
    counts = {"forward": 0, "backward": 0}

    def count(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        counts["forward"] += 1
        if output.requires_grad:
            output.register_hook(lambda _gradient: counts.update(backward=counts["backward"] + 1))  # type: ignore[no-untyped-call]

    model = Net()
    model.trunk.register_forward_hook(count)
    torch.manual_seed(0)
    stepper = Method(method).build(model, TASKS, lr=1e-2, evaluation=evaluation)
    steps = 3
    for _ in range(steps):
        stepper.step(squares, *BATCH.chunk(parts))
    said = Method(method).count_passes(len(TASKS), evaluation=evaluation, micro_batches=parts)
    forward, backward = (float(text) for text in said.split("+"))
    assert counts["forward"] == pytest.approx(forward * steps * parts, rel=5e-3)
    assert counts["backward"] == pytest.approx(backward * steps * parts, rel=5e-3)
