"""Executors: the same numbers wherever runs run, and one sentence where they cannot."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from socket import gethostname
from threading import Timer
from typing import Any, final

import pytest
from filelock import FileLock

from helpers.commands import Call, results
from helpers.training_cases import DATA
from torchsims.reporting import RunState
from torchsims.sweeps import make_executor
from torchsims.sweeps.local import count_processes
from torchsims.sweeps.remote import STATUS, Ended, Job, Remote, run_job
from torchsims.sweeps.running import make_cells
from torchsims.sweeps.slurm import Slurm
from torchsims.training import Execution, complete_config, resolve
from torchsims.training.checkpoints import LOCK

QUICK = ["--data", DATA, "--model", "hps:width=8", "--epochs", "1", "--batch", "4"]
METHODS = ["--methods", "ew,gls"]


def cells(out: Path, methods: Sequence[str] = ("ew", "gls")) -> Any:
    given = {"data": DATA, "model": "hps:width=8", "epochs": 1, "batch": 4}
    return make_cells([resolve(complete_config({**given, "method": method})) for method in methods], out)


@final
class Here(Remote):
    """Runs a job when it is looked at the second time."""

    def __init__(self, dies: int = 0) -> None:
        self.submitted: list[Job] = []
        self._dies = dies

    def start(self, out: Path, execution: Execution) -> None:
        self.out = out

    def submit(self, job: Job) -> Any:
        self.submitted.append(job)
        Path(job.folder).mkdir(parents=True)
        status = {"text": "step 1 of 6", "losses": {"depth": 1.0}}
        (Path(job.folder) / STATUS).write_text(json.dumps(status))
        return [job]

    def result(self, handle: Any) -> Ended | None:
        handle.append(None)
        return run_job(handle[0]) if len(handle) > 2 else None

    def cancel(self, handle: Any) -> None:
        raise AssertionError("Nothing is left to cancel.")


def test_cells_report_and_finish_and_leave_no_files(tmp_path: Path) -> None:
    found, seen = cells(tmp_path), list[str]()
    executor = Here()
    executor.work(found, 2, tmp_path, Execution(), lambda: seen.extend(str(cell.status) for cell in found))
    assert all(cell.run is not None and cell.status.state is RunState.DONE for cell in found)
    assert "EW seed 0: running, step 1 of 6" in seen
    assert len(executor.submitted) == 2
    assert not list(tmp_path.rglob(".torchsims.status*")) + list(tmp_path.glob(".torchsims.token"))


def test_a_machine_without_the_storage_says_so(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, ["ew"])
    job = Job(cell.resolved.config.to_dict(), str(cell.folder), vars(Execution()), (str(tmp_path / "token"), "1"))
    sentence = f"the folder `{tmp_path}` is not on storage that the machine {gethostname()} shares"
    assert run_job(job) == Ended(RunState.FAILED, sentence)
    (tmp_path / "token").write_text("of another folder with the same name")
    assert run_job(job).state is RunState.FAILED
    assert not cell.folder.exists()


def test_runs_through_submitit_are_those_of_this_machine(call: Call, tmp_path: Path) -> None:
    submitted, here = tmp_path / "submitted", tmp_path / "here"
    assert call("compare", *QUICK, *METHODS, "--jobs", "1", "--out", here) == 0
    assert call("compare", *QUICK, *METHODS, "--on", "slurm:cluster=local", "--out", submitted) == 0
    assert results(submitted)["rows"] == results(here)["rows"]


def test_a_dry_run_prints_the_scripts_and_writes_nothing(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    on = ["--on", "slurm:partition=gpu:gpus=2:minutes=30:memory=8", "--threads", "4", "--dry-run"]
    assert call("compare", *QUICK, *METHODS, *on, "--out", out) == 0
    printed = capsys.readouterr().out
    for line in ("time=30", "cpus-per-task=4", "gpus-per-node=2", "partition=gpu", "mem=8G"):
        assert printed.count(f"#SBATCH --{line}\n") == 2
    assert printed.count("-m torchsims train --config") == 2
    assert not out.exists()


@pytest.mark.parametrize(
    ("on", "sentence"),
    [
        ("slrum", "There is no executor `slrum`. Did you mean `slurm`?"),
        ("slurm:minutes=0", "`minutes`"),
        ("slurm:cluster=cloud", "`cluster` should be slurm or local"),
        ("slurm:partitions=gpu", "There is no option of executor `slurm` `partitions`. Did you mean `partition`?"),
        ("builtins:dict", "should be a subclass of torchsims.sweeps.Executor"),
    ],
)
def test_an_executor_that_is_not_there_is_one_sentence(
    on: str, sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("compare", *QUICK, *METHODS, "--on", on, "--out", tmp_path / "out") == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_slurm_without_sbatch_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ValueError, match="`sbatch` is not on this machine"):
        make_executor("slurm").check()


def test_a_run_of_several_processes_is_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    start = subprocess.Popen

    def fail(words: list[str], **options: Any) -> "subprocess.Popen[str]":
        seen.append(words)
        return start(["sh", "-c", "echo noise >&2; echo 'torchsims: Parameter `lr` is wrong.' >&2; exit 1"], **options)

    monkeypatch.setattr("subprocess.Popen", fail)
    (cell,) = cells(tmp_path, ["ew"])
    execution = Execution(processes=3, jobs=1, checkpoint_every=5)
    make_executor("local").work([cell], 1, tmp_path, execution, lambda: None)
    assert "--nproc-per-node=3" in seen[0]
    assert seen[0][seen[0].index("--checkpoint-every") + 1] == "5"
    assert (cell.status.state, cell.status.progress) == (RunState.FAILED, "torchsims: Parameter `lr` is wrong.")


def test_a_run_of_several_processes_is_trained_by_them(call: Call, tmp_path: Path) -> None:
    data = ["--data", "helpers.plug_in:Waves", "--epochs", "1", "--batch", "8", "--methods", "ew"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for the data above
        assert call("compare", *data, "--processes", "2", "--jobs", "1", "--out", tmp_path / "two") == 0
    (run,) = (tmp_path / "two" / "runs").iterdir()
    assert results(run)["settings"]["processes"] == 2
    assert call("compare", *data, "--jobs", "1", "--out", tmp_path / "one") == 0
    one, two = (results(tmp_path / name)["rows"][0] for name in ("one", "two"))
    assert two["sum mae"] == pytest.approx(one["sum mae"], rel=1e-4)


def test_a_run_of_several_processes_takes_as_many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert count_processes(Execution(threads=2, processes=2), 100) == 2
    assert Slurm()._parameters(Execution(threads=2, processes=2))["cpus_per_task"] == 4


def test_a_run_that_another_process_trains_is_waited_for(tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, ["ew"])
    warnings: list[str] = []
    cell.warn = warnings.append
    folder_lock = FileLock(cell.folder / LOCK, thread_local=False)
    cell.folder.mkdir(parents=True)
    folder_lock.acquire()
    Timer(1.0, folder_lock.release).start()
    make_executor("local").work([cell], 1, tmp_path, Execution(jobs=1), lambda: None)
    assert cell.status.state is RunState.DONE
    assert warnings == ["EW, seed 0: another process trains it; this one waits."]


def test_a_run_that_was_finished_in_the_meantime_is_read(tmp_path: Path) -> None:
    (cell,), (same,) = cells(tmp_path, ["ew"]), cells(tmp_path, ["ew"])
    make_executor("local").work([cell], 1, tmp_path, Execution(jobs=1), lambda: None)
    before = (cell.folder / "checkpoint.pt").stat().st_mtime_ns
    make_executor("local").work([same], 1, tmp_path, Execution(jobs=1), lambda: None)
    assert same.run is not None
    assert same.run.metrics == cell.run.metrics
    assert (cell.folder / "checkpoint.pt").stat().st_mtime_ns == before
