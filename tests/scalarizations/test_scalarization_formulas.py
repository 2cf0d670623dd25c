"""Every loss-level method against its slow twin in plain Python."""

import math

import pytest
import torch
from torch import Tensor

from helpers.histories import NOW, after, history, train
from helpers.methods import LOSSES, LossLevel, every_loss_level
from helpers.support import TASKS
from helpers.twins import Step
from torchsims.scalarizations import DWA, FAMO


def steps_of(losses: Tensor, labelled: Tensor) -> list[Step]:
    return [
        {i: loss[i].item() for i in range(3) if known[i]} for loss, known in zip(losses, labelled, strict=True)
    ]  # fmt: skip


@every_loss_level
@pytest.mark.parametrize("labels", ["all", "some", "late"])
def test_objective_is_its_formula(case: LossLevel, labels: str) -> None:
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
    for t in range(len(losses)):
        expected = case.twin(past[:t], observed[:t], past[t])
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
    case = LOSSES["STCH-normalized"]
    losses = history()
    torch.testing.assert_close(train(case.make(TASKS), losses)[:4], losses[:4].log().sum(-1))


def test_famo_gives_a_task_that_improves_less_weight() -> None:
    method = FAMO()
    for _ in range(50):
        method(NOW)
        method.observe(NOW * torch.tensor([0.5, 1.0, 1.0], dtype=torch.float64))
    assert method.w[0] < method.w[1] == method.w[2]
