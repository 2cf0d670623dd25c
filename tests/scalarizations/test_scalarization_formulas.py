"""Every loss-level method against its slow twin in plain Python."""

import math

import pytest
import torch
from torch import Tensor

from helpers.histories import NOW, after, gradient, history, train
from helpers.methods import LOSSES, LossLevel, every_loss_level
from helpers.support import TASKS
from helpers.twins import Step, go4align
from torchsims.scalarizations import DWA, EW, FAMO, LDCMTL, SLAW, GO4Align


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


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("seed", range(3))
def test_go4align_finds_the_best_groups_of_many_tasks(groups: int, seed: int) -> None:
    losses = 0.1 + torch.rand(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = gradient(GO4Align(groups, step_size=0.02), losses)
    expected = go4align(min(groups, 6))([], dict(enumerate(losses.tolist())))
    assert found.tolist() == pytest.approx(list(expected.values()), rel=1e-12)


def test_go4align_of_one_group_is_a_multiple_of_equal_weights() -> None:
    method = GO4Align(1, step_size=0.02)
    train(method, history())
    slopes = gradient(method, NOW)
    torch.testing.assert_close(slopes / slopes.sum(), gradient(EW(), NOW))


def test_go4align_drops_no_task_by_underflow_of_all() -> None:
    """Where the authors' product is zero for every task, the sum of the losses still tells them apart."""
    losses = torch.tensor([1e4, 1.1e4], dtype=torch.float64)
    assert torch.equal(torch.exp(-losses), torch.zeros(2, dtype=torch.float64))
    slopes = gradient(GO4Align(2, step_size=1.0), losses)
    assert slopes[0] > 0
    assert slopes.isfinite().all()


def test_slaw_is_exact_for_a_loss_that_moves_little() -> None:
    """In single precision the difference of the two means of the paper has no correct digit here."""
    losses = torch.tensor([[1000.0, 1.0], [1000.5, 1.5], [1000.0, 1.0], [1000.5, 1.5]])
    method = SLAW()
    train(method, losses)
    torch.testing.assert_close(method.variance, torch.full((2,), 1 / 16))


def test_slaw_of_losses_that_do_not_move_is_finite() -> None:
    method = SLAW()
    constant = torch.tensor([2.0, 200.0, 0.0])
    train(method, constant.expand(5, 3))
    slopes = gradient(method, constant)
    assert slopes[2] == 0
    torch.testing.assert_close(slopes[0], 100 * slopes[1])
    torch.testing.assert_close(slopes.sum(), torch.tensor(3.0))


def test_all_pairs_of_two_tasks_are_the_neighbours() -> None:
    losses = history()[:, :2]
    methods = [LDCMTL(["a", "b"], pairs="neighbours"), LDCMTL(["a", "b"], pairs="all")]
    assert torch.equal(*[train(method, losses) for method in methods])


def test_the_penalty_of_ldc_mtl_can_push_a_task_back() -> None:
    """What its docstring warns of: the task that is ahead of both neighbours has a negative weight."""
    tasks = [str(i) for i in range(20)]
    method = LDCMTL(tasks)
    method(torch.ones(20))
    ahead = torch.ones(20)
    ahead[5] = 0.1
    assert gradient(method, ahead)[5] < 0
    assert (gradient(LDCMTL(tasks, penalty=0.0), ahead) > 0).all()
