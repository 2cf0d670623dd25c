"""Every loss-level method against a slow twin in plain Python, written from its formula.

A twin knows only the tasks that have a label: a step is a mapping from task to loss, and an absent task is not in it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pytest
import torch
from torch import Tensor

from helpers.scalarization_cases import (
    CASES,
    IDEAL,
    NOW,
    START,
    STEPS_PER_EPOCH,
    TASKS,
    WEIGHTS,
    Case,
    after,
    every_case,
    history,
    train,
)
from torchsims.scalarizations import DWA, FAMO

Step: TypeAlias = Mapping[int, float]
Twin: TypeAlias = Callable[[Sequence[Step], Sequence[Step], Step], float]


def lse(values: Sequence[float], tau: float) -> float:
    return tau * math.log(sum(math.exp(value / tau) for value in values))


def softmax(values: Step) -> dict[int, float]:
    total = sum(math.exp(value) for value in values.values())
    return {i: math.exp(value) / total for i, value in values.items()}


def epoch_means(steps: Sequence[Step], task: int) -> list[tuple[int, float]]:
    """Return the epochs in which a task had labels and its mean loss there."""
    means = []
    for e in range(len(steps) // STEPS_PER_EPOCH):
        seen = [step[task] for step in steps[e * STEPS_PER_EPOCH : (e + 1) * STEPS_PER_EPOCH] if task in step]
        if seen:
            means.append((e, sum(seen) / len(seen)))
    return means


def rlw(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    generator = torch.Generator().manual_seed(3)
    for _ in range(len(past) + 1):
        g = torch.randn(3, generator=generator, dtype=torch.float64)
    w = softmax({i: g[i].item() for i in now})
    return sum(w[i] * now[i] for i in now)


def dwa(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    rates = {}
    for i in now:
        means = [mean for _, mean in epoch_means(past, i)]
        rates[i] = means[-1] / means[-2] / 0.7 if len(means) > 1 else 1 / 0.7
    w = softmax(rates)
    return len(now) * sum(w[i] * now[i] for i in now)


def stch(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return lse([loss / len(now) for loss in now.values()], 0.7)


def stch_weighted(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    return lse([WEIGHTS[i] * (now[i] - IDEAL[i]) for i in now], 0.7)


def stch_normalized(past: Sequence[Step], now: Step, epochs: int) -> float:
    d = []
    for i in now:
        warmup = [mean for e, mean in epoch_means(past, i) if e < epochs]
        later = [step[i] for step in [*past[epochs * STEPS_PER_EPOCH :], now] if i in step]
        d.append(math.log(now[i] / (warmup[-1] if warmup else later[0])))
    return len(now) * lse(d, 0.7)


def log_merit(past: Sequence[Step], now: Step, rho: float) -> float:
    d = []
    for i in now:
        seen = [step[i] for step in [*past, now] if i in step]
        log_reference = math.log(seen[0])
        for loss in seen[:-1]:
            log_reference = 0.6 * log_reference + 0.4 * math.log(loss)
        d.append(math.log(now[i]) - log_reference)
    return (lse(d, 0.7) + rho * sum(d)) / (1 + rho * len(d))


def famo(past: Sequence[Step], observed: Sequence[Step], now: Step) -> float:
    w = [torch.nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in TASKS]
    optimizers = [torch.optim.Adam([parameter], lr=0.3, weight_decay=0.01) for parameter in w]
    for before, then in zip(past, observed, strict=True):
        delta = torch.tensor([math.log(before[i]) - math.log(then[i]) for i in before], dtype=torch.float64)
        z = torch.softmax(torch.stack([w[i] for i in before]), -1)
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.autograd.backward((z @ delta).sum())
        for i in before:
            optimizers[i].step()
    weights = softmax({i: w[i].item() for i in now})
    c = sum(weights[i] / now[i] for i in now)
    return sum(weights[i] * math.log(now[i]) for i in now) / c


TWINS: dict[str, Twin] = {
    "EW": lambda past, observed, now: sum(now.values()) / len(now),
    "FixedWeights": lambda past, observed, now: sum(WEIGHTS[i] * now[i] for i in now),
    "RLW": rlw,
    "UW": lambda past, observed, now: sum((now[i] * math.exp(-START[i]) + START[i].item()) / 2 for i in now),
    "IMTLL": lambda past, observed, now: sum(now[i] * math.exp(START[i]) - START[i].item() for i in now),
    "DWA": dwa,
    "GLS": lambda past, observed, now: math.prod(now.values()) ** (1 / len(now)),
    "STCH": stch,
    "STCH-weighted": stch_weighted,
    "STCH-normalized": lambda past, observed, now: stch_normalized(past, now, 2),
    "STCH-at-once": lambda past, observed, now: stch_normalized(past, now, 0),
    "STCH-warmup": lambda past, observed, now: sum(math.log(loss) for loss in now.values()),
    "Chebyshev": lambda past, observed, now: max(now.values()) / len(now),
    "Chebyshev-weighted": lambda past, observed, now: max(WEIGHTS[i] * (now[i] - IDEAL[i]) for i in now),
    "FAMO": famo,
    "LogMerit": lambda past, observed, now: log_merit(past, now, 0.0),
    "LogMerit-augmented": lambda past, observed, now: log_merit(past, now, 0.2),
}


def steps_of(losses: Tensor, labelled: Tensor) -> list[Step]:
    return [
        {i: loss[i].item() for i in TASKS if known[i]} for loss, known in zip(losses, labelled, strict=True)
    ]  # fmt: skip


def test_every_case_has_a_twin() -> None:
    assert TWINS.keys() == {case.name for case in CASES}


@every_case
@pytest.mark.parametrize("labels", ["all", "some", "late"])
def test_objective_is_its_formula(case: Case, labels: str) -> None:
    losses = history(steps=10)
    labelled = torch.ones(10, 3, dtype=torch.bool)
    if labels == "some":
        labelled = torch.rand(10, 3, generator=torch.Generator().manual_seed(4)) < 0.6
        labelled[:, 2] |= ~labelled.any(-1)
    if labels == "late":
        labelled[:7, 1] = False
    if case.name == "STCH-warmup":
        losses, labelled = losses[:8], labelled[:8]
    found = train(case.make(TASKS), losses, labelled)
    past, observed = steps_of(losses, labelled), steps_of(after(losses), labelled)
    start = 2 * STEPS_PER_EPOCH if case.name == "STCH-normalized" else 0
    for t in range(start, len(losses)):
        expected = TWINS[case.name](past[:t], observed[:t], past[t])
        assert found[t].item() == pytest.approx(expected, rel=1e-9, abs=1e-9), f"step {t}"


def test_dwa_by_hand() -> None:
    method = DWA()
    epochs = torch.tensor([[[1.0, 10.0], [3.0, 30.0]], [[2.0, 10.0], [2.0, 10.0]]])
    for epoch in epochs:
        for losses in epoch:
            torch.testing.assert_close(method(losses), losses.sum())
        method.end_epoch()
    # Means (2, 20) and (2, 10): rates (1, 1/2), over T = 2: (1/2, 1/4), and 2 softmax of that.
    weights = torch.tensor([2 / (1 + math.exp(-0.25)), 2 / (1 + math.exp(0.25))])
    torch.testing.assert_close(method(torch.tensor([5.0, 7.0])), weights @ torch.tensor([5.0, 7.0]))


def test_stch_normalized_starts_with_the_sum_of_logarithms() -> None:
    case = next(case for case in CASES if case.name == "STCH-normalized")
    losses = history()
    torch.testing.assert_close(train(case.make(TASKS), losses)[:4], losses[:4].log().sum(-1))


def test_famo_gives_a_task_that_improves_less_weight() -> None:
    method = FAMO()
    for _ in range(50):
        method(NOW)
        method.observe(NOW * torch.tensor([0.5, 1.0, 1.0], dtype=torch.float64))
    assert method.w[0] < method.w[1] == method.w[2]
