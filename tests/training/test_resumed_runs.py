"""Runs that stop, fail or are killed, and go on as if they had not."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import dropout

from helpers.training_cases import Interrupt, assert_same_run, assert_same_tensors, checkpoint, small
from torchsims.methods import METHODS
from torchsims.training import Execution, RunConfig, StoppedError, train
from torchsims.training.checkpoints import lock_folder, replace_file
from torchsims.training.evaluation import evaluate
from torchsims.training.predict import read_run_config
from torchsims.training.signals import asked_to_stop
from torchsims.workloads import Workload
from torchsims.workloads.scenes import SceneWorkload

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


def test_the_time_of_a_resumed_run_is_that_of_all_its_parts(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        train(small(), tmp_path, callbacks=[Interrupt(5)])
    before = checkpoint(tmp_path)["seconds"]
    assert all(before[part] > 0 for part in ("data", "step", "evaluation", "checkpoint"))
    after = train(small(), tmp_path).seconds
    assert all(after[part] > before[part] for part in before)


def test_the_checkpoint_of_a_run_without_times_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        train(small(), tmp_path, callbacks=[Interrupt(5)])
    state = checkpoint(tmp_path)
    del state["seconds"]
    torch.save(state, tmp_path / "checkpoint.pt")
    assert train(small(), tmp_path).seconds["step"] > 0


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


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchsims.training.checkpoints.PATIENCE", 0.0)
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
