"""Training runs: scale, stopping and going on, several processes, what is evaluated and when."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import dropout

from helpers.ranks import run_ranks
from helpers.training_cases import assert_same_tensors, checkpoint, small, tensors
from torchsims.methods import METHODS
from torchsims.training import (
    Callback,
    Execution,
    Metrics,
    Run,
    RunConfig,
    StepValues,
    StoppedError,
    TensorBoard,
    train,
)
from torchsims.training.batches import training_batches
from torchsims.training.checkpoints import lock_folder, replace_file
from torchsims.training.evaluation import evaluate
from torchsims.training.predict import read_run_config
from torchsims.training.signals import asked_to_stop
from torchsims.training.trainer import warmup_then_decay
from torchsims.workloads import Workload
from torchsims.workloads.scenes import SceneWorkload


class Interrupt(Callback):
    """Presses Ctrl-C during a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_step(self, step: int, values: StepValues) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def assert_same_run(one: Run, other: Run) -> None:
    assert one.metrics == other.metrics
    np.testing.assert_equal(one.history.to_dict(), other.history.to_dict())  # unlike ==, it takes NaN for NaN
    assert one.samples is not None
    assert other.samples is not None
    assert one.samples.keys() == other.samples.keys()
    for name, array in one.samples.items():
        np.testing.assert_array_equal(array, other.samples[name])


# Scale.


@pytest.mark.parametrize("method", ["sims", "sims:evaluation=sequential", "sims:prox=1e-3:augment=0.1"])
def test_a_power_of_two_changes_no_bit(method: str, tmp_path: Path) -> None:
    plain = train(small(method=method), tmp_path / "plain")
    scaled = train(small(method=method, rescale={"depth": 128.0}), tmp_path / "scaled")
    assert_same_run(plain, scaled)
    assert_same_tensors(checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "scaled"))


def test_the_same_factor_changes_equal_weights(tmp_path: Path) -> None:
    plain = train(small(method="ew"), tmp_path / "plain")
    scaled = train(small(method="ew", rescale={"depth": 128.0}), tmp_path / "scaled")
    assert plain.metrics != scaled.metrics


# Stopping and resuming.

# Fixed weights need a weight per task.
TRAINED = [name if name != "fixed" else "fixed:seg=1:depth=2:normals=3" for name in METHODS.names()]


@pytest.mark.parametrize("method", [*TRAINED, "stch:normalize=yes:warmup_epochs=1", "foops:normalizer=ema"])
def test_a_run_that_stopped_ends_like_one_that_did_not(method: str, tmp_path: Path) -> None:
    config = small(method=method)
    whole = train(config, tmp_path / "whole")
    for at in (1, 5):  # in the first epoch and in the second
        with pytest.raises(StoppedError):
            train(config, tmp_path / "parts", callbacks=[Interrupt(at)])
        assert checkpoint(tmp_path / "parts")["trainer"]["step"] == at + 1
    parts = train(config, tmp_path / "parts")
    assert_same_run(whole, parts)
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))


def test_dropout_goes_on_as_if_nothing_had_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(method="sims")
    workload = SceneWorkload
    predict = workload.predict

    def with_dropout(self: Any, model: torch.nn.Module, batch: Any) -> Any:
        return {task: dropout(out, 0.2, model.training) for task, out in predict(self, model, batch).items()}

    monkeypatch.setattr(workload, "predict", with_dropout)
    whole = train(config, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(config, tmp_path / "parts", callbacks=[Interrupt(2)])
    torch.manual_seed(99)  # a new process would have another one
    assert_same_run(whole, train(config, tmp_path / "parts"))


def _train_in_a_child(config: RunConfig, folder: Path) -> int:
    """Return the number of a process that trains and saves after every step."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(config, folder, execution=Execution(checkpoint_every=1))
            code = 0
        finally:
            os._exit(code)
    return child


def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    config = small(method="sims", epochs=12)
    whole = train(config, tmp_path / "whole")
    folder, chance = tmp_path / "killed", random.Random(0)
    path = folder / "checkpoint.pt"
    stopped: list[int] = []  # after how many steps
    while len(stopped) < 20:
        before = path.stat().st_mtime_ns if stopped else 0
        child = _train_in_a_child(config, folder)
        end = time.monotonic() + 60
        while not (path.exists() and path.stat().st_mtime_ns != before) and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.06))  # a step, or the writing of its checkpoint
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the run ended, or failed, before it was killed"
        state = checkpoint(folder)  # whole, whenever it was
        assert read_run_config(folder) == config
        stopped.append(state["trainer"]["step"])
    assert stopped == sorted(stopped)
    assert stopped[-1] > stopped[0] + 8  # over several epochs
    assert_same_run(whole, train(config, folder))
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(folder))
    kept = {"checkpoint.pt", "checkpoint.previous.pt", "config.toml", ".torchsims.lock"}
    assert {path.name for path in folder.iterdir()} == kept


def test_a_failing_evaluation_leaves_its_epoch_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(method="dwa", epochs=3)
    whole = train(config, tmp_path / "whole")
    calls = iter(range(100))

    def broken(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise OSError("the disk is gone")
        return evaluate(*arguments, **options)

    monkeypatch.setattr("torchsims.training.loop.evaluate", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        train(config, tmp_path / "broken")
    assert_same_run(whole, train(config, tmp_path / "broken"))
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "broken"))


def test_a_run_goes_on_with_the_threads_it_had(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(StoppedError):
            train(small(), tmp_path, callbacks=[Interrupt(1)])
        torch.set_num_threads(1)
        train(small(), tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(ValueError, match="Another process trains in"):
        train(small(method="ew", epochs=1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".torchsims.lock"]


def test_a_late_interrupt_is_not_lost() -> None:
    with asked_to_stop() as outer:
        with asked_to_stop() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
            assert inner()
        assert outer()


def test_a_failing_step_leaves_the_state_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(method="sims")
    whole = train(config, tmp_path / "whole")
    losses, calls = SceneWorkload.losses, iter(range(100))

    def broken(self: Workload, predictions: Any, batch: Any) -> Any:
        if next(calls) == 9:
            raise FileNotFoundError("image 12 is gone")
        return losses(self, predictions, batch)

    monkeypatch.setattr(SceneWorkload, "losses", broken)
    with pytest.raises(FileNotFoundError, match="image 12"):
        train(config, tmp_path / "broken")
    assert checkpoint(tmp_path / "broken")["trainer"]["step"] == 4  # two calls per step
    assert checkpoint(tmp_path / "broken")["epoch"] == 1
    monkeypatch.undo()
    assert_same_run(whole, train(config, tmp_path / "broken"))


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    replace_file(path, b"before")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_is_moved_into_its_place_and_never_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.pt"
    replace_file(path, b"before")

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("keep", [0, 10, 1000, 5000, 20000, -1])
def test_a_truncated_checkpoint_is_refused(keep: int, tmp_path: Path) -> None:
    train(small(method="ew", epochs=1), tmp_path)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content := path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="truncated or damaged"):
        train(small(method="ew", epochs=1), tmp_path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("change", [{"method": "gls"}, {"seed": 1}, {"rescale": {"depth": 2.0}}, {"epochs": 3}])
def test_the_checkpoint_of_another_run_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    train(small(method="ew", epochs=1), tmp_path)
    content = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=f"belongs to a run with `{next(iter(change))} = "):
        train(small(**{"method": "ew", "epochs": 1, **change}), tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == content


# Ranks and micro-batches.


def _on_a_rank(rank: int, folder: str, config: RunConfig) -> tuple[dict[str, Any], Metrics]:
    run = train(config, Path(folder))
    return run.history.to_dict(), run.metrics


def test_two_processes_are_one(tmp_path: Path) -> None:
    config = small(method="sims", dtype="float64", epochs=5)  # 20 steps
    alone = train(config, tmp_path / "alone")
    found = run_ranks({"run": (_on_a_rank, (str(tmp_path / "two"), config))})["run"]
    for history, metrics in found:
        for task, losses in alone.history.losses.items():
            np.testing.assert_allclose(history["losses"][task], losses, rtol=1e-6)
        for task, values in alone.metrics.items():
            assert metrics[task] == pytest.approx(values, rel=1e-6)
    assert found[0] == found[1]


def test_metrics_of_one_model_are_the_same_on_two_processes(tmp_path: Path) -> None:
    config = small(method="ew", epochs=1)
    alone = train(config, tmp_path)
    # Both go on from the finished checkpoint, so that only the evaluation is left.
    for _, metrics in run_ranks({"run": (_on_a_rank, (str(tmp_path), config))})["run"]:
        for task, values in alone.metrics.items():
            assert metrics[task] == pytest.approx(values, rel=1e-12)


def test_micro_batches_are_one_batch(tmp_path: Path) -> None:
    whole = train(small(dtype="float64"), tmp_path / "whole")
    parts = train(small(dtype="float64", micro_batches=4), tmp_path / "parts")
    for task, losses in whole.history.losses.items():
        np.testing.assert_allclose(parts.history.losses[task], losses, rtol=1e-9)


# What a run looks at.


def test_the_test_split_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = SceneWorkload
    split, seen = workload.split, []

    def spy(self: SceneWorkload, name: str) -> Any:
        seen.append(name)
        return split(self, name)

    monkeypatch.setattr(workload, "split", spy)
    train(small(), tmp_path)
    assert [name for name in seen if name != "train"] == ["val", "val", "test", "test"]  # the second time for pictures


def test_seeds_differ_in_the_model_and_in_the_order(tmp_path: Path) -> None:
    train(small(method="ew", epochs=1, lr=1e-12), tmp_path / "0")
    train(small(method="ew", epochs=1, lr=1e-12, seed=1), tmp_path / "1")
    one, other = (tensors(checkpoint(tmp_path / name)["model"]) for name in "01")
    assert not torch.equal(one["/heads.0.out.weight"], other["/heads.0.out.weight"])
    assert not torch.equal(training_batches(16, 4, 0, 0), training_batches(16, 4, 1, 0))


def test_both_copies_follow_the_schedule(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        train(small(method="sims:ratio=5", lr=1e-3), tmp_path, callbacks=[Interrupt(2)])
    method = checkpoint(tmp_path)["trainer"]["method"]
    outer, inner = (method[name]["param_groups"][0]["lr"] for name in ("outer", "inner"))
    assert inner == pytest.approx(5 * outer)
    assert outer == pytest.approx(1e-3 * warmup_then_decay(3, 8, 0.1))


def test_the_event_file_has_raw_losses_weights_and_merit(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = small(method="sims", rescale={"depth": 1024.0})
    with pytest.raises(StoppedError):
        train(config, tmp_path, callbacks=[TensorBoard(tmp_path / "tb"), Interrupt(5)])
    with pytest.raises(StoppedError):
        train(config, tmp_path, callbacks=[TensorBoard(tmp_path / "tb"), Interrupt(6)])
    run = train(config, tmp_path, callbacks=[TensorBoard(tmp_path / "tb")])
    events = EventAccumulator(str(tmp_path / "tb")).Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"losses/depth", "weights/seg", "merit", "lr", "validation/depth/abs_err"} <= scalars
    assert [event.step for event in events.Scalars("validation/depth/abs_err")] == [3, 7]
    steps = [event.step for event in events.Scalars("losses/depth")]
    assert steps == list(range(8))  # none twice, none left out
    last = np.mean([event.value for event in events.Scalars("losses/depth")][4:])
    assert last == pytest.approx(run.history.losses["depth"][-1], rel=1e-5)
