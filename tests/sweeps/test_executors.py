"""Executors: the same numbers wherever runs run, and one sentence where they cannot."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import pytest

from helpers.commands import Call, results
from helpers.training_cases import DATA
from torchsims.reporting import RunState
from torchsims.sweeps import make_executor
from torchsims.sweeps.remote import STATUS, Job, Remote, run_job
from torchsims.sweeps.running import make_cells
from torchsims.training import Execution, complete_config, resolve

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
        status = {"text": "step 1 of 6", "losses": {"depth": 1.0}, "warnings": []}
        (Path(job.folder) / STATUS).write_text(json.dumps(status))
        return [job]

    def result(self, handle: Any) -> tuple[str, str] | None:
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
    assert run_job(job) == ("failed", f"the folder `{tmp_path}` is not on storage that this machine shares")
    (tmp_path / "token").write_text("of another folder with the same name")
    assert run_job(job)[0] == "failed"
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

    def run(words: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        seen.append(words)
        return subprocess.CompletedProcess(words, 1, stderr="noise\ntorchsims: Parameter `lr` should be positive.")

    monkeypatch.setattr("subprocess.run", run)
    (cell,) = cells(tmp_path, ["ew"])
    make_executor("local").work([cell], 1, tmp_path, replace(Execution(), processes=3, jobs=1), lambda: None)
    assert "--nproc-per-node=3" in seen[0]
    assert (cell.status.state, cell.status.progress) == (
        RunState.FAILED,
        "torchsims: Parameter `lr` should be positive.",
    )
