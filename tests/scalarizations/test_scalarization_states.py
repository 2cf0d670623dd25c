"""Laws of what loss-level methods remember, and of what they refuse."""

import copy
import io
import math
from collections.abc import Callable

import pytest
import torch

from helpers.histories import NOW, assert_same_state, history, state, train, trained
from helpers.methods import LossLevel, every_loss_level
from helpers.support import TASKS
from torchsims.scalarizations import (
    DWA,
    EW,
    FAMO,
    IMTLL,
    LDCMTL,
    SLAW,
    STCH,
    UW,
    UWSO,
    Chebyshev,
    FixedWeights,
    GO4Align,
    LogMerit,
    Scalarization,
)


def fresh(case: LossLevel) -> Scalarization:
    return case.make(TASKS)


@every_loss_level
@pytest.mark.parametrize("steps", [0, 3, 6])
def test_resumed_is_uninterrupted(case: LossLevel, steps: int) -> None:
    losses = history(steps=12)
    straight, resumed = fresh(case), fresh(case)
    train(straight, losses[:steps])
    train(resumed, history(5))  # of another shape, to be forgotten
    file = io.BytesIO()
    torch.save(straight.state_dict(), file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(train(resumed, losses[steps:]), train(straight, losses[steps:]))
    assert_same_state(state(resumed), state(straight))


@every_loss_level
@pytest.mark.parametrize("make", [fresh, trained])
def test_evaluation_foretells_training_and_changes_nothing(
    case: LossLevel, make: Callable[[LossLevel], Scalarization]
) -> None:
    method = make(case).eval()
    before = state(method)
    foretold = method(NOW)
    method.observe(NOW / 2)
    assert_same_state(state(method), before)
    assert torch.equal(foretold, method.train()(NOW))


@every_loss_level
def test_statistics_of_an_unlabelled_task_rest(case: LossLevel) -> None:
    method = trained(case)
    before = state(method)
    train(method, history(steps=2), torch.tensor([[True, False, True]]).expand(2, 3))
    now = state(method)
    for name in before.keys() - {"before"}:  # the losses that FAMO is about to compare are those of one batch
        if before[name].shape == (3,):
            torch.testing.assert_close(now[name][1], before[name][1], rtol=0, atol=0, equal_nan=True)


@every_loss_level
def test_statistics_are_replaced_and_never_overwritten(case: LossLevel) -> None:
    method = trained(case)
    snapshot = dict(method.named_buffers())
    before = {name: buffer.clone() for name, buffer in snapshot.items()}
    train(method, history(seed=1))
    assert_same_state(snapshot, before)
    snapshot = dict(method.named_buffers())
    before = {name: buffer.clone() for name, buffer in snapshot.items()}
    method.load_state_dict(trained(case, history(seed=2)).state_dict())
    assert_same_state(snapshot, before)


@every_loss_level
def test_copy_goes_its_own_way(case: LossLevel) -> None:
    method = trained(case)
    expected = train(copy.deepcopy(method), history(seed=1))
    assert torch.equal(train(method, history(seed=1)), expected)


@every_loss_level
def test_global_random_state_is_untouched(case: LossLevel) -> None:
    before = torch.get_rng_state()
    trained(case)
    assert torch.equal(torch.get_rng_state(), before)


@every_loss_level
def test_end_of_an_epoch_without_steps_changes_no_objective(case: LossLevel) -> None:
    method = fresh(case)
    method.end_epoch()
    assert method(NOW).isfinite()
    method = trained(case)
    expected = method.eval()(NOW)
    method.end_epoch()
    assert torch.equal(method(NOW), expected)


def floored(*first: float) -> LogMerit:
    """Return a method with a floor that has seen its first losses."""
    method = LogMerit(floor=0.1)
    method(torch.tensor(first))
    return method


def test_a_loss_may_be_zero_above_a_floor_in_a_loop_of_ones_own() -> None:
    method = floored(2.0, 2.0)
    losses = torch.tensor([0.0, 2.0], requires_grad=True)
    method(losses).backward()
    assert losses.grad is not None
    assert (losses.grad > 0).all()


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: UW([]), "Parameter `tasks` should hold distinct names. Found `tasks = []`."),
    (lambda: IMTLL(["a", "a"]), "Parameter `tasks` should hold distinct names"),
    (lambda: UW("ab"), "Found `tasks = 'ab'`."),
    (lambda: DWA(0.0), "Parameter `temperature` should be positive. Found `temperature = 0.0`."),
    (lambda: STCH(-1.0), "Parameter `mu` should be positive and finite. Found `mu = -1.0`."),
    (lambda: STCH(math.inf), "Parameter `mu` should be positive and finite. Found `mu = inf`."),
    (lambda: STCH(warmup_epochs=-1), "Parameter `warmup_epochs` should not be negative"),
    (lambda: STCH(normalize=True, weights=[1.0]), "should be None with `normalize`"),
    (lambda: STCH(weights=[1.0, 0.0]), "Parameter `weights` should be positive"),
    (lambda: Chebyshev(ideal=[float("nan")]), "Parameter `ideal` should be finite"),
    (lambda: Chebyshev([1.0], [1.0, 2.0]), "should have the same length. Found 1 and 2."),
    (lambda: Chebyshev({"a": 1.0}, {"b": 1.0}), "should name the same tasks. Found ['a'] and ['b']."),
    (lambda: Chebyshev([1.0, 2.0])(NOW), "should have one value per task. Found 2 for 3 losses."),
    (lambda: Chebyshev({"a": 1.0})(NOW), "The losses should be those of ['a']. Found 3 losses."),
    (lambda: UW(["a"])({"b": NOW[0]}), "The losses should be those of ['a']. Found ['b']."),
    (lambda: FixedWeights({"a": 1.0}, ["a", "b"]), "should have one weight per task. Found no weight for task `b`."),
    (lambda: FixedWeights({"a": 1.0, "b": 1.0}, ["a"]), "Found a weight for `b`, which is not a task."),
    (lambda: FixedWeights({"a": 1.0, "x": 1.0}, ["a", "b"]), "Found no weight for task `b` and a weight for `x`"),
    (lambda: FixedWeights({"a": -1.0}), "finite, not negative and not all zero. Found `weights = {'a': -1.0}`."),
    (lambda: FixedWeights({"a": float("nan")}), "Found `weights = {'a': nan}`."),
    (lambda: FixedWeights({"a": 0.0, "b": 0.0}), "not all zero"),
    (lambda: FixedWeights({}), "not all zero. Found `weights = {}`."),
    (lambda: FixedWeights({"a": 1.0})({"b": NOW[0]}), "The losses should be those of ['a']. Found ['b']."),
    (lambda: FAMO(gamma=-1.0), "Parameter `gamma` should not be negative"),
    (lambda: FAMO(lr=0.0), "Parameter `lr` should be positive"),
    (lambda: LogMerit(0.0), "Parameter `tau` should be positive and finite. Found `tau = 0.0`."),
    (lambda: LogMerit(math.inf), "Parameter `tau` should be positive and finite. Found `tau = inf`."),
    (lambda: LogMerit(decay=1.0), "Parameter `decay` should be in [0, 1)"),
    (lambda: LogMerit(augment=-1.0), "Parameter `augment` should not be negative"),
    (
        lambda: LDCMTL(["a"], penalty=-1.0),
        "Parameter `penalty` should be finite and not negative. Found `penalty = -1.0`.",
    ),
    (lambda: LDCMTL(["a"], normalize="none"), "should be one of ('log', 'ratio'). Found `normalize = 'none'`."),  # type: ignore[arg-type]
    (lambda: LDCMTL(["a"], pairs="some"), "Parameter `pairs` should be one of ('neighbours', 'all')"),  # type: ignore[arg-type]
    (lambda: SLAW(1.0), "Parameter `decay` should be in [0, 1). Found `decay = 1.0`."),
    (lambda: UWSO(0.0), "Parameter `temperature` should be positive. Found `temperature = 0.0`."),
    (lambda: GO4Align(0), "Parameter `groups` should be a positive integer. Found `groups = 0`."),
    (lambda: GO4Align(2.5), "Parameter `groups` should be a positive integer"),  # type: ignore[arg-type]
    (lambda: GO4Align(step_size=-1.0), "Parameter `step_size` should be finite and not negative"),
    (lambda: GO4Align(step_size=math.inf), "Parameter `step_size` should be finite and not negative"),
    (lambda: floored(0.0, 1.0), "The loss of task `0` should be above 0 for `LogMerit`, and finite. Found 0.0"),
    (lambda: floored(1.0, 1.0)(torch.tensor([-0.5, 1.0])), "The loss of task `0` should be above 0"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_bad_input_is_refused_in_a_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the sentence is checked below, without its brackets escaped
        call()
    assert sentence in str(caught.value)


def test_losses_that_change_their_shape_are_refused() -> None:
    method = LogMerit()
    method(NOW)
    with pytest.raises(ValueError, match="same shape in every step"):
        method(NOW[:2])


def test_observation_without_a_step_is_refused() -> None:
    with pytest.raises(RuntimeError, match="should follow a training step"):
        FAMO().observe(NOW)


def test_observation_of_a_task_that_the_step_lacked_is_ignored() -> None:
    method = FAMO()
    method(NOW, torch.tensor([True, False, True]))
    method.observe(NOW / torch.tensor([2.0, 4.0, 8.0]))
    assert method.w[1] == 0
    assert method.w[0] == -method.w[2] > 0


def test_method_without_statistics_has_an_empty_state() -> None:
    assert EW().state_dict() == {}
