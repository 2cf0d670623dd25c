"""Micro-batches that are given one by one take the step of one call with all of them, and are never silently lost."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler

from helpers.methods import STEPPERS, tolerance
from helpers.ranks import run_ranks
from helpers.support import Data, flat, make_data, make_net, make_sims, mean_losses, parameters, task_losses
from torchsims import SIMS, Stepper, TaskLosses

SIZES = (7, 1, 3, 5)
FEW = ["SIMS", "SIMS joint", "SIMS alternating", "FOOPS", "EW", "FAMO", "LogMerit", "MGDA"]
UNUSED = "The micro-batches that `accumulate` kept were dropped"


def values(method: Stepper[Any]) -> Tensor:
    theirs = method._challenger.parameters if isinstance(method, SIMS) else []
    return flat([*method.model.parameters(), *theirs])


def clipped(method: Stepper[Any], *call: Any) -> Any:
    method.backward(*call)
    method.clip_grad_norm_(0.1)
    return method.update()


@pytest.mark.parametrize("name", STEPPERS)
def test_the_step_is_that_of_the_whole_batch(name: str) -> None:
    method, whole, parts = (STEPPERS[name](make_net(dropout=0.0)) for _ in range(3))
    for seed in range(3):
        data = make_data(seed=seed, share=0.6)
        for micro_batch in data.split(SIZES):
            method.accumulate(task_losses, micro_batch)
        report = method.update()
        expected = parts.step(task_losses, *data.split(SIZES))
        assert report.losses == pytest.approx(expected.losses, nan_ok=True, abs=0, rel=0)
        whole.step(task_losses, data)
    assert torch.equal(values(method), values(parts))
    torch.testing.assert_close(values(method), values(whole), rtol=0, atol=10 * tolerance(name))


@pytest.mark.parametrize("name", [name for name in FEW if "alternating" not in name])
def test_gradients_can_be_clipped_before_the_update(name: str) -> None:
    method, other = STEPPERS[name](make_net()), STEPPERS[name](make_net())
    for seed in range(2):
        micro_batches = make_data(seed=seed).split(SIZES)
        for micro_batch in micro_batches:
            method.accumulate(task_losses, micro_batch)
        report = clipped(method)
        expected = clipped(other, task_losses, *micro_batches)
        assert report.losses == expected.losses
    assert torch.equal(values(method), values(other))


@pytest.mark.parametrize("at", ["backward", "update"])
@pytest.mark.parametrize("name", FEW)
def test_a_gradient_scaler_is_taken_by_both(name: str, at: str) -> None:
    ends = []
    for accumulates in (False, True):
        method, scaler = STEPPERS[name](make_net(torch.float32)), GradScaler("cpu", init_scale=2.0**10)
        micro_batches = make_data(dtype=torch.float32).split(SIZES)
        if not accumulates:
            method.step(mean_losses(), *micro_batches, scaler=scaler)
        else:
            for micro_batch in micro_batches:
                method.accumulate(mean_losses_once, micro_batch)
            if at == "backward":
                method.backward(scaler=scaler)
            method.update(**({} if at == "backward" else {"scaler": scaler}))
        scaler.update()
        ends.append(values(method))
    assert torch.equal(*ends)


mean_losses_once = mean_losses()


def test_nothing_is_computed_and_no_batch_copied_before_the_update() -> None:
    calls: list[Data] = []

    def closure(model: nn.Module, data: Data) -> TaskLosses:
        calls.append(data)
        return task_losses(model, data)

    method, micro_batches = make_sims(make_net()), make_data().split((8, 8))
    for micro_batch in micro_batches:
        method.accumulate(closure, micro_batch)
    assert calls == []
    method.update()
    assert {id(data) for data in calls} == {id(data) for data in micro_batches}
    with pytest.raises(RuntimeError, match=r"`update` should follow `backward` or `accumulate`. Found no gradients"):
        method.update()


class Loop:
    """A loop that keeps its closure as a method, which is another object at every look."""

    def losses(self, model: nn.Module, data: Data) -> TaskLosses:
        return task_losses(model, data)


def test_closures_are_compared_by_value_and_others_refused() -> None:
    method, loop = make_sims(make_net()), Loop()
    for micro_batch in make_data().split((8, 8)):
        method.accumulate(loop.losses, micro_batch)
    with pytest.raises(ValueError, match=r"should have the same closure. Found another one: define it once"):
        method.accumulate(task_losses, make_data())
    method.update()
    method.accumulate(task_losses, make_data())
    method.update()


WASTES: dict[str, Callable[[Any], Any]] = {
    "end_epoch": lambda method: method.end_epoch(),
    "step": lambda method: method.step(task_losses, make_data(seed=9)),
    "backward": lambda method: (method.backward(task_losses, make_data(seed=9)), method.update()),
    "load_state_dict": lambda method: method.load_state_dict(method._saved_state()),
}


@pytest.mark.parametrize("way", WASTES)
@pytest.mark.parametrize("name", ["SIMS", "EW", "MGDA"])
def test_what_is_dropped_warns_once(name: str, way: str) -> None:
    method, other = STEPPERS[name](make_net()), STEPPERS[name](make_net())
    method.accumulate(task_losses, make_data())
    with pytest.warns(UserWarning, match=UNUSED) as caught:
        WASTES[way](method)
    assert [warning.filename for warning in caught] == [__file__]
    method.accumulate(task_losses, make_data())
    WASTES[way](method)  # once
    for _ in range(2):
        WASTES[way](other)
    assert torch.equal(values(method), values(other))
    with pytest.raises(RuntimeError, match="Found no gradients that wait"):
        method.update()


def test_a_state_without_them_warns_and_keeps_them() -> None:
    method, other = make_sims(make_net()), make_sims(make_net())
    method.accumulate(task_losses, make_data())
    with pytest.warns(UserWarning, match="The state does not hold the micro-batches that `accumulate` keeps") as caught:
        method.state_dict()
    assert [warning.filename for warning in caught] == [__file__]
    method.update()
    other.step(task_losses, make_data())
    assert torch.equal(values(method), values(other))


def test_gradients_that_wait_are_dropped_with_a_warning() -> None:
    method, other = make_sims(make_net()), make_sims(make_net())
    method.backward(task_losses, make_data(seed=5))
    with pytest.warns(UserWarning, match="The gradients of a `backward` without an `update` were dropped"):
        method.accumulate(task_losses, make_data())
    method.update()
    other.step(task_losses, make_data())
    assert torch.equal(values(method), values(other))


class Fragile:
    """Losses that fail in some calls."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def losses(self, model: nn.Module, data: Data) -> TaskLosses:
        if self.error is not None:
            raise self.error
        return task_losses(model, data)


def raise_instead(*_: Any, **__: Any) -> None:
    raise OSError("device gone")


@pytest.mark.parametrize("where", ["closure", "interrupt", "optimizer"])
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("name", FEW)
def test_a_step_that_failed_can_be_tried_again(
    name: str, halves: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(method: Stepper[Any]) -> Any:
        if halves:
            method.backward()
        return method.update()

    method, other, closure = STEPPERS[name](make_net()), STEPPERS[name](make_net()), Fragile()
    micro_batches = make_data(share=0.6).split(SIZES)
    for micro_batch in micro_batches:
        method.accumulate(closure.losses, micro_batch)
    before = values(method)
    closure.error = {"closure": OSError("disk gone"), "interrupt": KeyboardInterrupt()}.get(where)
    with monkeypatch.context() as broken:
        if where == "optimizer":
            broken.setattr(method.optimizers[0], "step", raise_instead)
        with pytest.raises((OSError, KeyboardInterrupt)):
            take(method)
    closure.error = None
    assert torch.equal(values(method), before)
    take(method)
    other.step(task_losses, *micro_batches)
    assert torch.equal(values(method), values(other))
    with pytest.raises(RuntimeError, match="Found no gradients that wait"):
        method.update()


@pytest.mark.parametrize("name", ["SIMS", "EW", "MGDA"])
def test_what_failed_is_dropped_with_a_warning_when_new_micro_batches_come(name: str) -> None:
    method, other = STEPPERS[name](make_net()), STEPPERS[name](make_net())
    method.accumulate(mean_losses((1.0, float("nan"), 1.0)), make_data())
    with pytest.raises(ValueError, match="The loss of task `b` should be finite"):
        method.update()
    micro_batches = make_data().split(SIZES)
    with pytest.warns(UserWarning, match=UNUSED):
        method.accumulate(task_losses, micro_batches[0])
    for micro_batch in micro_batches[1:]:
        method.accumulate(task_losses, micro_batch)
    method.update()
    other.step(task_losses, *micro_batches)
    assert torch.equal(values(method), values(other))


def test_a_failed_step_of_another_batch_does_not_mark_what_comes_after() -> None:
    method, other = make_sims(make_net()), make_sims(make_net())
    with pytest.raises(ValueError, match="should be finite"):
        method.step(mean_losses((1.0, float("nan"), 1.0)), make_data())
    micro_batches = make_data().split(SIZES)
    for micro_batch in micro_batches:
        method.accumulate(task_losses, micro_batch)
    method.update()
    other.step(task_losses, *micro_batches)
    assert torch.equal(values(method), values(other))


def test_a_skipped_step_uses_its_micro_batches() -> None:
    method = make_sims(make_net())
    method.accumulate(task_losses, make_data(share=0.0))
    assert method.update().skipped is not None
    with pytest.raises(RuntimeError, match="Found no gradients that wait"):
        method.update()


MISUSES: dict[str, tuple[Any, str]] = {
    "losses": (lambda method: method.accumulate({"a": torch.ones(())}, make_data()), "should be a function .* `dict`"),
    "losses in a step": (lambda method: method.step(torch.ones(2), make_data()), "should be a function .* `Tensor`"),
    "batch first": (lambda method: method.backward(make_data()), "should be a function .* `Data`"),
    "neither": (lambda method: method.backward(), "`backward` should get a closure and a batch, or follow"),
    "clipping too early": (
        lambda method: (method.accumulate(task_losses, make_data()), method.clip_grad_norm_(1.0)),
        "should be clipped between `backward` and `update`",
    ),
    "clipping too late": (
        lambda method: (method.step(task_losses, make_data()), method.clip_grad_norm_(1.0)),
        "should be clipped between `backward` and `update`",
    ),
    "late scaler": (
        lambda method: (method.backward(task_losses, make_data()), method.update(scaler=GradScaler("cpu"))),
        "scaler should be an argument of `backward` if it is called. Found it in `update`",
    ),
    "inside of the closure": (
        lambda method: method.step(lambda model, data: method.accumulate(task_losses, data), make_data()),
        "A closure should only compute losses. Found a call of a stepper inside of it",
    ),
}


@pytest.mark.parametrize("kind", MISUSES)
def test_wrong_use_is_one_sentence(kind: str) -> None:
    misuse, sentence = MISUSES[kind]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=sentence):
        misuse(make_sims(make_net()))


def on_rank(rank: int, sizes: tuple[tuple[int, ...], ...]) -> Tensor | str:
    method = make_sims(make_net())
    for micro_batch in make_data(share=0.6).split((11, 5))[rank].split(sizes[rank]):
        method.accumulate(task_losses, micro_batch)
    try:
        method.update()
    except ValueError as error:
        return str(error)
    return parameters(method.model)


def test_unequal_micro_batches_of_two_ranks_take_one_step() -> None:
    found = run_ranks({"same": (on_rank, (((4, 7), (3, 2)),)), "other": (on_rank, (((4, 7), (5,)),))}, timeout=30)
    method = make_sims(make_net())
    method.step(task_losses, make_data(share=0.6))
    for result in found["same"]:
        torch.testing.assert_close(result, parameters(method.model), rtol=0, atol=1e-12)
    assert all("should have the same number of micro-batches" in result for result in found["other"])
