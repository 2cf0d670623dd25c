"""Laws of the objective of every loss-level method."""

from functools import partial

import pytest
import torch
from torch.optim import SGD

from helpers.histories import NOW, assert_same_state, gradient, history, state, train, trained
from helpers.methods import LOSS_LEVEL, LossLevel, every_loss_level
from helpers.support import TASKS
from torchsims import Scalarized, scalarizations
from torchsims.scalarizations import FAMO, STCH, UW, Chebyshev, FixedWeights, Scalarization


def test_every_method_has_a_case() -> None:
    assert {case.method for case in LOSS_LEVEL} == set(scalarizations.__all__) - {"Scalarization", "from_torchjd"}


@every_loss_level
def test_every_case_is_of_its_method(case: LossLevel) -> None:
    assert type(case.make(TASKS)) is getattr(scalarizations, case.method)


@every_loss_level
def test_gradient_is_the_central_difference(case: LossLevel) -> None:
    method = trained(case)
    if isinstance(method, FAMO):  # c is held constant, which differences cannot know
        z = torch.softmax(method.w, -1)
        torch.testing.assert_close(gradient(method, NOW), (z / NOW) / (z / NOW).sum())
        return
    if case.weights is not None:  # held constant too
        past = [dict(enumerate(losses.tolist())) for losses in history()]
        w = case.weights(past, dict(enumerate(NOW.tolist())))
        torch.testing.assert_close(gradient(method, NOW), torch.tensor([w[0], w[1], w[2]], dtype=torch.float64))
        return
    for i, step in enumerate(torch.diag(1e-5 * NOW)):
        difference = method.eval()(NOW + step) - method(NOW - step)
        torch.testing.assert_close(gradient(method, NOW)[i], difference / (2 * step[i]), rtol=1e-6, atol=1e-7)


@every_loss_level
def test_permutation_of_the_tasks_changes_nothing(case: LossLevel) -> None:
    order = [2, 0, 1]
    one, two = case.make(TASKS), case.make([TASKS[i] for i in order])
    expected, found = train(one, history()), train(two, history()[:, order])
    if case.ordered:
        assert not torch.allclose(found, expected)
        if case.method == "RLW":  # draws by position: what a permutation leaves is the sum of the weights
            torch.testing.assert_close(gradient(one, NOW).sum(), gradient(two, NOW).sum())
        return
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient(two, NOW[order]), gradient(one, NOW)[order])


@every_loss_level
def test_batch_is_a_loop_over_rows(case: LossLevel) -> None:
    losses = history(2, 2)
    batch = case.make(TASKS)
    found = train(batch, losses)
    slopes = gradient(batch, NOW.expand(2, 2, 3))
    assert found.shape == (6, 2, 2)
    for i, j in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        row = case.make(TASKS)
        torch.testing.assert_close(found[:, i, j], train(row, losses[:, i, j]))
        torch.testing.assert_close(slopes[i, j], gradient(row, NOW))


@every_loss_level
@pytest.mark.parametrize("placeholder", [1.0, 1e-30, 0.0, torch.nan])
def test_unlabelled_is_absent(case: LossLevel, placeholder: float) -> None:
    # RLW draws in order: without a trace only the last task can go, and only in the first step.
    absent, steps = (2, 0) if case.method == "RLW" else (1, 6)
    present = [i for i in range(3) if i != absent]
    labelled = torch.arange(3) != absent
    losses = history(steps=steps).where(labelled, placeholder)
    masked, smaller = case.make(TASKS), case.make([TASKS[i] for i in present])
    torch.testing.assert_close(train(masked, losses, labelled.expand_as(losses)), train(smaller, losses[:, present]))
    slopes = gradient(masked, NOW.where(labelled, placeholder), labelled)
    torch.testing.assert_close(slopes[present], gradient(smaller, NOW[present]))
    assert slopes[absent] == 0


@every_loss_level
@pytest.mark.parametrize("placeholder", [1e-3, 1e6])
def test_objective_of_a_stepper_ignores_the_entries_of_unlabelled_tasks(case: LossLevel, placeholder: float) -> None:
    one, two = trained(case), trained(case)
    labelled = torch.tensor([True, False, True])
    for losses in history(seed=1):
        expected = one.objective(losses.where(labelled, 1), labelled)
        assert torch.equal(two.objective(losses.where(labelled, placeholder), labelled), expected)
    assert_same_state(state(one), state(two))


@every_loss_level
@pytest.mark.parametrize("found", [torch.bfloat16, torch.float32, torch.float64])
def test_precision_is_kept_and_single_at_least(case: LossLevel, found: torch.dtype) -> None:
    expected = torch.promote_types(found, torch.float32)
    method = case.make(TASKS)
    assert train(method, history().to(found)).dtype == expected
    assert {buffer.dtype for buffer in method.buffers() if buffer.numel()} <= {expected}


@every_loss_level
def test_step_never_waits_for_the_device(case: LossLevel) -> None:
    method = case.make(TASKS).to("meta")  # has shapes and no values: looking at a value raises
    losses = torch.ones(4, 3, device="meta", requires_grad=True)
    for _ in range(3):
        objective = method(losses, losses > 0)
        objective.sum().backward()
        method.observe(losses, losses > 0)
        method.end_epoch()
    assert (objective.shape, objective.device.type) == ((4,), "meta")


@every_loss_level
def test_statistics_follow_the_losses(case: LossLevel) -> None:
    method = trained(case)
    assert train(method, history().float()).dtype == torch.float32
    if not list(method.parameters()):  # which the user moves
        assert train(method, history().to("meta")).device.type == "meta"


@every_loss_level
def test_flags_tell_the_truth(case: LossLevel) -> None:
    method = trained(case)
    elsewhere = torch.tensor([4.0, 2.0, 0.5], dtype=torch.float64)
    assert torch.allclose(gradient(method, NOW), gradient(method, elsewhere)) == method.linear
    anywhere = [each.eval()(losses, check=False) for each in (case.make(TASKS), method) for losses in (-NOW, 0 * NOW)]
    assert bool(torch.stack(anywhere).isfinite().all()) != method.positive
    assert method.observes == (type(method).observe is not Scalarization.observe)


@every_loss_level
def test_losses_by_name_in_order_or_stacked_are_the_same(case: LossLevel) -> None:
    expected = trained(case)(NOW)
    assert torch.equal(trained(case)(list(NOW)), expected)
    assert torch.equal(trained(case)({"c": NOW[2], "a": NOW[0], "b": NOW[1]}), expected)


def test_tasks_fix_the_order() -> None:
    method = UW(["c", "a"], start=torch.tensor([1.0, 2.0]))
    by_name = method({"a": torch.tensor(3.0), "c": torch.tensor(5.0)})
    assert torch.equal(by_name, method(torch.tensor([5.0, 3.0])))


def test_settings_by_name_are_in_sorted_order() -> None:
    losses = {"b": torch.tensor(3.0), "a": torch.tensor(5.0)}
    for named, ordered in [
        (STCH(weights={"b": 2.0, "a": 1.0}), STCH(weights=[1.0, 2.0])),
        (Chebyshev(ideal={"b": 2.0, "a": 1.0}), Chebyshev(ideal=[1.0, 2.0])),
    ]:
        assert torch.equal(named(losses), ordered(torch.tensor([5.0, 3.0])))


def test_stch_tends_to_chebyshev() -> None:
    losses = history()
    torch.testing.assert_close(STCH(1e-6)(losses), Chebyshev()(losses), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["UW", "IMTLL", "LDCMTL"])
def test_parameters_of_independent_runs_are_independent(name: str) -> None:
    start = history()
    batch = getattr(scalarizations, name)(["a", "b", "c"], start=start, dtype=torch.float64)
    batch(NOW.expand(6, 3))
    batch(2 * NOW.expand(6, 3)).sum().backward()
    (found,) = batch.parameters()
    for row, slope in zip(start, found.grad, strict=True):
        single = getattr(scalarizations, name)(["a", "b", "c"], start=row, dtype=torch.float64)
        single(NOW)
        single(2 * NOW).backward()
        (expected,) = single.parameters()
        torch.testing.assert_close(slope, expected.grad)


def test_fixed_weights_are_by_name_whatever_the_order() -> None:
    losses = {"seg": torch.tensor(2.0), "depth": torch.tensor(3.0)}
    by_name = FixedWeights({"seg": 1.0, "depth": 10.0})
    assert by_name(losses) == 32
    assert by_name(torch.tensor([3.0, 2.0])) == 32  # sorted names
    assert FixedWeights({"depth": 10.0, "seg": 1.0}, tasks=["seg", "depth"])(torch.tensor([2.0, 3.0])) == 32


def test_fixed_weights_are_those_of_the_report() -> None:
    model = torch.nn.Linear(2, 3)
    method = Scalarized(model, FixedWeights({"c": 4.0, "a": 0.0, "b": 0.5}), outer=partial(SGD, lr=0.1))

    def task_losses(model: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return dict(zip("bca", model(x).square().mean(0), strict=True))

    assert method.step(task_losses, torch.ones(1, 2)).weights == {"a": 0.0, "b": 0.5, "c": 4.0}
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\]"):
        method.step(lambda model, x: model(x).square().mean(0), torch.ones(1, 2))
