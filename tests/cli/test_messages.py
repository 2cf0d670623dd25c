"""What a command says when the disk is full, a seed is out of range, a folder is in use, or processes come and go."""

import errno
import shutil
from functools import partial
from pathlib import Path
from threading import Timer

import pytest
import torch
from filelock import FileLock

from helpers.commands import Call
from helpers.small_tables import write_table
from helpers.training_cases import checkpoint
from torchsims.training import Callback, RunConfig, train
from torchsims.training.checkpoints import LOCK, lock_folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("messages")
    train(config(folder), folder / "run")
    return folder / "run"


def config(folder: Path) -> RunConfig:
    return RunConfig(
        "table", "ew", "mlp:hidden=4", tasks=("weight",), root=str(write_table(folder)), epochs=1, batch=64, lr=1e-3
    )


def test_a_full_disk_names_the_file(
    run: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    monkeypatch.setattr("torchsims.training.checkpoints.os.fsync", full)
    assert call("predict", run, run.parent / "table.csv", "--out", out) == 2
    assert f"No space left on device while writing `{out / 'table_predictions.csv'}`" in capsys.readouterr().err
    monkeypatch.setattr("torchsims.training.checkpoints.replace_file", lambda path, content: None)
    assert call("predict", run, run.parent / "table.csv", "--out", tmp_path / "page") == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"No space left on device while writing to `{tmp_path / 'page'}`" in sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--seed", "-1"], "`seed` should not be negative"),
        (["--seed", str(2**63)], "`seed` should be below 2^63"),
        (["--data", "table:split_seed=-1"], "`split_seed` should not be negative"),
        (["--data", f"table:split_seed={2**70}"], "`split_seed` should have at most 63 bits"),
        (["--method", f"rlw:seed={2**70}"], "`seed`"),
    ],
)
def test_a_seed_out_of_range_is_one_sentence(
    words: list[str], sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--data", "table", "--csv", write_table(tmp_path), "--targets", "weight", "--out", tmp_path / "out"]
    assert call("train", *given, *words) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert sentence in error


def test_a_folder_that_is_deleted_during_a_run_is_one_sentence(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = ["--data", "table", "--csv", write_table(tmp_path), "--targets", "weight", "--out", out]
    delete = partial(shutil.rmtree, out, ignore_errors=True)  # a checkpoint may be written to it at the same time
    monkeypatch.setattr("torchsims.reporting.ProgressBar.on_step", lambda *_: delete())
    assert call("train", *given, "--epochs", 1) == 1
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"The folder `{out / 'tensorboard'}` was deleted while the run was writing to it." in sentence
    assert sentence.endswith(f"What was trained before is saved in {out}.")
    assert (out / "checkpoint.pt").exists()


def test_the_lock_of_a_process_that_ends_is_waited_for(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / LOCK, thread_local=False)
    lock.acquire()
    Timer(0.2, lock.release).start()
    with lock_folder(tmp_path):
        pass


def test_another_number_of_processes_is_said_once(run: Path, tmp_path: Path) -> None:
    said: list[str] = []

    class Listener(Callback):
        def on_warning(self, sentence: str) -> None:
            said.append(sentence)

    state = checkpoint(run)
    assert state["processes"] == 1
    torch.save({**state, "processes": 2}, run / "checkpoint.pt")
    train(config(run.parent), run, callbacks=[Listener()])
    (sentence,) = said
    assert "by 2 processes before, and by 1 now" in sentence
    assert "not bit for bit" in sentence
