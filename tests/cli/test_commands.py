"""`torchsims methods | train | compare | report` and the tables that train: what they leave, and what they refuse."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.commands import Call, results
from helpers.processes import Command, run_command_on_ranks
from helpers.training_cases import DATA, assert_same_tensors, checkpoint, small
from torchsims.experiments import load_experiment
from torchsims.methods import METHODS, Method
from torchsims.training import complete_config, resolve
from torchsims.training.checkpoints import is_locked

QUICK = ["--data", DATA, "--model", "hps:width=8", "--epochs", "2", "--batch", "4"]
FILES = {"results.json", "table.md", "report.html", "training.png", "validation.png", "weights.png", "predictions.png"}

OWN = {"checkpoint.pt", "checkpoint.previous.pt", "config.toml", ".torchsims.lock"}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# methods


def test_the_list_has_every_method(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("methods") == 0
    lines = capsys.readouterr().out.splitlines()
    for name in METHODS.names():
        (line,) = [line for line in lines if line.startswith(f"| {name} |")]
        assert Method(name).family in line
        assert Method(name).passes in line


# train


def test_train_leaves_everything(call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train", *QUICK, "--method", "sims", "--out", tmp_path / "run", "--profile") == 0
    output = capsys.readouterr()
    assert "SIMS: 100 %" in output.err
    assert "| data |" in output.out
    assert OWN | FILES | {"samples.npz", "tensorboard"} == {p.name for p in (tmp_path / "run").iterdir()}
    found = results(tmp_path / "run")
    assert {"settings", "versions", "seconds", "rows"} <= set(found)
    (row,) = found["rows"]
    assert row["method"] == "SIMS"
    assert {"seg miou", "depth abs_err", "normals median"} <= set(row)
    assert not any("second" in name or "path" in name or "/" in str(value) for name, value in row.items())
    assert found["settings"]["method"] == "sims"


def test_a_rescaled_run_has_the_same_rows_and_tensors(call: Call, tmp_path: Path) -> None:
    for name, extra in (("plain", []), ("scaled", ["--rescale", "depth=128"])):
        assert call("train", *QUICK, *extra, "--out", tmp_path / name) == 0
    assert_same_tensors(checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "scaled"))
    plain, scaled = ({k: v for k, v in r.items() if k != "method"} for r in _rows(tmp_path, "plain", "scaled"))
    assert plain == scaled


def test_a_preference_is_an_option_that_only_some_methods_take(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", *QUICK, "--prefer", "depth=4", "--out", tmp_path / "run") == 0
    found = results(tmp_path / "run")
    assert found["settings"]["prefer"] == {"depth": 4.0}
    assert found["rows"][0]["method"] == "SIMS, depth preferred 4"
    capsys.readouterr()
    assert call("compare", *QUICK, "--prefer", "depth=4", "--methods", "sims,ew", "--out", tmp_path / "both") == 2
    assert "Method `ew` has no preference. Found one for ['depth']." in " ".join(capsys.readouterr().err.split())


def _rows(folder: Path, *runs: str) -> list[dict[str, Any]]:
    return [row for run in runs for row in results(folder / run)["rows"]]


def test_resume_takes_the_settings_from_the_checkpoint(call: Call, tmp_path: Path) -> None:
    assert call("train", *QUICK, "--method", "gls", "--seed", "3", "--out", tmp_path / "run") == 0
    before = checkpoint(tmp_path / "run"), results(tmp_path / "run")["rows"]
    assert call("train", "--resume", "--out", tmp_path / "run") == 0
    assert_same_tensors(before[0], checkpoint(tmp_path / "run"))
    assert before[1] == results(tmp_path / "run")["rows"]


def test_resume_without_a_checkpoint_starts(call: Call, tmp_path: Path) -> None:
    assert call("train", *QUICK, "--method", "ew", "--resume", "--out", tmp_path / "run") == 0
    assert results(tmp_path / "run")["rows"]


def _wait_for(folder: Path, pattern: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not list(folder.glob(pattern)):
        assert time.monotonic() < end, f"{pattern} did not appear"
        time.sleep(0.02)


def test_ctrl_c_saves_and_says_how_to_go_on(call: Call, tmp_path: Path) -> None:
    long = [*QUICK, "--method", "sims", "--epochs", "6", "--checkpoint-every", "1"]
    command = Command(tmp_path / "command", "train", *long, "--out", tmp_path / "run")
    _wait_for(tmp_path, "run/checkpoint.pt")
    os.kill(command.pid, signal.SIGINT)
    code, _, errors = command.wait()
    assert code == 130, errors
    assert f"To resume: torchsims train --resume --out {tmp_path / 'run'}" in errors
    assert "Traceback" not in errors
    assert call("train", "--resume", "--out", tmp_path / "run") == 0
    assert call("train", *long, "--out", tmp_path / "whole") == 0
    assert_same_tensors(checkpoint(tmp_path / "run"), checkpoint(tmp_path / "whole"))
    assert results(tmp_path / "run")["rows"] == results(tmp_path / "whole")["rows"]


def test_torchrun_finds_what_one_process_finds(call: Call, tmp_path: Path) -> None:
    arguments = ["train", *QUICK, "--dtype", "float64", "--method", "sims"]
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "torchsims",
    ]
    done = subprocess.run(
        [*torchrun, *arguments, "--out", str(tmp_path / "two")], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert call(*arguments, "--out", tmp_path / "one") == 0
    one, two = (results(tmp_path / name)["run"] for name in ("one", "two"))
    for task, metrics in one["metrics"].items():
        assert two["metrics"][task] == pytest.approx(metrics, rel=1e-6)
    assert results(tmp_path / "two")["settings"]["processes"] == 2


# compare and report


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compared") / "out"
    arguments = ["compare", *QUICK, "--methods", "ew,sims:tau=1,stl", "--seeds", "2", "--jobs", "2", "--out", str(out)]
    command = [sys.executable, "-m", "torchsims", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "SIMS, tau 1 seed 1: done" in done.stderr
    assert f"Page: {out / 'report.html'}" in done.stdout
    return out


def test_compare_leaves_everything(compared: Path) -> None:
    assert FILES | {"delta.png", "runs"} == {path.name for path in compared.iterdir()}
    found = results(compared)
    assert [row["method"] for row in found["rows"]] == ["EW", "SIMS, tau 1", "STL, EW"]
    assert all(row["seeds"] == 2 for row in found["rows"])
    assert found["rows"][0]["Delta_b"] == pytest.approx(0, abs=1e-12)  # a mean relative to itself
    assert "EW | 1+1 | 2 | 0.0" in (compared / "table.md").read_text()
    runs = found["details"]["Runs"]
    values = [row["depth abs_err"] for row in runs if row["method"] == "EW"]
    assert found["rows"][0]["depth abs_err"] == pytest.approx(sum(values) / 2)


def test_compare_finds_what_train_finds(compared: Path, call: Call, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    arguments = ["train", *QUICK, "--method", "sims:tau=1", "--seed", "1", "--out", tmp_path / "run", "--threads", "1"]
    try:
        assert call(*arguments) == 0
    finally:
        torch.set_num_threads(threads)
    (row,) = results(tmp_path / "run")["rows"]
    assert row in results(compared)["details"]["Runs"]


def test_one_job_at_a_time_finds_the_same(compared: Path, call: Call, tmp_path: Path) -> None:
    arguments = ["compare", *QUICK, "--methods", "ew,sims:tau=1,stl", "--seeds", "2", "--jobs", "1"]
    assert call(*arguments, "--out", tmp_path / "out") == 0
    assert results(tmp_path / "out")["rows"] == results(compared)["rows"]


def test_a_killed_comparison_goes_on(compared: Path, call: Call, tmp_path: Path) -> None:
    arguments = ["compare", *QUICK, "--methods", "ew,sims:tau=1,stl", "--seeds", "2", "--out", tmp_path / "out"]
    command = Command(tmp_path / "command", *arguments, "--jobs", "2")
    _wait_for(tmp_path, "out/runs/hps_width=8_ew_seed=0/results.json")
    os.kill(command.pid, signal.SIGKILL)
    assert command.wait()[0] == -signal.SIGKILL
    assert not (tmp_path / "out" / "results.json").exists()
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").glob("*/results.json")}
    assert call(*arguments, "--resume", "--jobs", "1") == 0  # at once: children without a parent may still train
    assert results(tmp_path / "out")["rows"] == results(compared)["rows"]
    assert all(path.stat().st_mtime_ns == then for path, then in finished.items())


def _slow_comparison(tmp_path: Path) -> list[str]:
    """Return a comparison that takes minutes, and no time once there is a file ``fast``."""
    model = f"helpers.plug_in:Slow:until={tmp_path / 'fast'}:seconds=1.5"
    data = ["--data", "helpers.plug_in:Waves", "--model", model, "--epochs", "24", "--batch", "8"]
    return ["compare", *data, "--methods", "ew,gls", "--jobs", "2", "--baseline", "gls"]


@pytest.mark.parametrize(
    ("send", "number"),
    [(os.killpg, signal.SIGINT), (os.kill, signal.SIGTERM), (os.killpg, signal.SIGTERM)],
    ids=["a terminal", "kill -TERM", "a scheduler"],
)
def test_a_stopped_comparison_says_how_to_go_on(
    send: Callable[[int, int], None], number: int, call: Call, tmp_path: Path
) -> None:
    slow = _slow_comparison(tmp_path)
    command = Command(tmp_path / "command", *slow, "--out", tmp_path / "out")
    for method in ("ew", "gls"):
        _wait_for(tmp_path, f"out/runs/*_{method}_seed=0/checkpoint.pt")
    send(command.pid, number)
    code, _, errors = command.wait()
    assert code == 130, errors
    assert not any(map(is_locked, (tmp_path / "out" / "runs").iterdir()))  # the runs have saved their states, and ended
    assert "Traceback" not in errors
    hint = errors.strip().splitlines()[-1].partition("To resume: torchsims ")[2]
    assert "--baseline gls" in hint
    (tmp_path / "fast").touch()
    assert call(*shlex.split(hint), "--jobs", "1") == 0
    assert call(*slow, "--jobs", "1", "--out", tmp_path / "whole") == 0
    assert results(tmp_path / "out")["rows"] == results(tmp_path / "whole")["rows"]


def _children(*processes: int) -> list[int]:
    parents = ",".join(map(str, processes))
    return [int(n) for n in subprocess.run(["pgrep", "-P", parents], capture_output=True, text=True).stdout.split()]


def test_a_comparison_survives_the_death_of_a_run(tmp_path: Path) -> None:
    command = Command(tmp_path / "command", *_slow_comparison(tmp_path), "--out", tmp_path / "out")
    _wait_for(tmp_path, "out/runs/*_gls_seed=0/checkpoint.pt")
    os.kill(_children(*_children(command.pid))[0], signal.SIGKILL)  # a fork of the server
    (tmp_path / "fast").touch()
    code, _, errors = command.wait()
    assert code == 1
    assert "its process ended with code -9" in errors
    assert "Traceback" not in errors
    assert sum(row["sum mae"] is None for row in results(tmp_path / "out")["rows"]) == 1


def test_ranks_compare_too(tmp_path: Path) -> None:
    arguments = ["compare", *QUICK, "--methods", "ew,sims", "--out", tmp_path / "out"]
    errors = run_command_on_ranks(tmp_path / "command", *arguments)
    assert [row["method"] for row in results(tmp_path / "out")["rows"]] == ["EW", "SIMS"]
    assert errors.count("SIMS seed 0: done") == 1


def test_a_baseline_of_zero_leaves_a_table(compared: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(compared, tmp_path / "out")
    for path in (tmp_path / "out" / "runs").glob("hps_width=8_ew_*/results.json"):
        found = json.loads(path.read_text())
        found["run"]["metrics"]["normals"]["within_11.25"] = 0.0
        path.write_text(json.dumps(found))
    assert call("report", tmp_path / "out", "--out", tmp_path / "page") == 0
    assert "normals within_11.25 of EW is 0" in (tmp_path / "page" / "report.html").read_text()
    assert all("Delta_b" not in row and row["mean rank"] >= 1 for row in results(tmp_path / "page")["rows"])


def test_a_run_that_fails_does_not_stop_the_others(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The square of the loss, times 1e30, does not fit into single precision.
    methods = "ew,sims:transform=x^2"
    arguments = ["compare", *QUICK, "--methods", methods, "--rescale", "depth=1e30", "--jobs", "1"]
    assert call(*arguments, "--out", tmp_path / "out") == 1
    assert "SIMS, transform x^2" in capsys.readouterr().err
    found = results(tmp_path / "out")
    first, second = found["rows"]
    assert (first["method"], second["method"]) == ("EW, depth x 1e+30", "SIMS, transform x^2, depth x 1e+30")
    assert second["depth abs_err"] is None  # it is not left out
    assert "Failed" in (tmp_path / "out" / "report.html").read_text()


def test_report_joins_finished_runs(compared: Path, call: Call, tmp_path: Path) -> None:
    assert call("train", *QUICK, "--method", "gls", "--out", tmp_path / "gls") == 0
    assert call("report", compared, tmp_path / "gls", "--out", tmp_path / "page") == 0
    found = results(tmp_path / "page")
    assert [row["method"] for row in found["rows"]] == ["EW", "SIMS, tau 1", "STL, EW", "GLS"]
    before = {row["method"]: row for row in results(compared)["rows"]}
    assert all(before.get(row["method"], row) == row for row in found["rows"])
    assert call("report", compared, "--baseline", "STL, EW", "--out", tmp_path / "other") == 0
    assert "--baseline &#39;STL, EW&#39;" in (tmp_path / "other" / "report.html").read_text()


def test_a_page_of_rescaled_runs_is_relative_to_equal_weights(call: Call, tmp_path: Path) -> None:
    assert call("train", *QUICK, "--method", "ew", "--rescale", "depth=3", "--out", tmp_path / "run") == 0
    assert call("report", tmp_path / "run", "--out", tmp_path / "page") == 0
    (row,) = results(tmp_path / "page")["rows"]
    assert row["Delta_b"] == pytest.approx(0, abs=1e-12)


TABLES = {"transforms": 7, "normalization": 7, "tau": 7, "lambda": 6, "rescale": 16, "architectures": 6}


@pytest.mark.parametrize("name", ["tau", "rescale"])
def test_a_table_leaves_its_rows_and_its_figure(name: str, call: Call, tmp_path: Path) -> None:
    quick = ["--data", DATA, "--model", "hps:width=8", "--epochs", "1", "--batch", "8", "--jobs", "1"]
    assert call("reproduce", name, *quick, "--out", tmp_path / "out") == 0
    assert len(results(tmp_path / "out")["rows"]) == TABLES[name]
    assert (tmp_path / "out" / {"tau": "tau.png", "rescale": "rescaled.png"}[name]).exists()


@pytest.mark.parametrize("name", TABLES)
def test_every_table_names_methods_that_exist(name: str) -> None:
    configs = load_experiment(name).comparison(complete_config(small().to_dict()), 2).configs
    assert len({resolve(config).label for config in configs}) == TABLES[name]


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "--method", "simms"], "There is no method `simms`. Did you mean `sims`?"),
        (["train", "--data", "scene"], "There is no data `scene`. Did you mean `scenes`?"),
        (["train", "--tasks", "seg,dept"], "There is no task `dept`. Did you mean `depth`?"),
        (["train", "--rescale", "dept=3"], "There is no task `dept`. Did you mean `depth`?"),
        (["train", "--rescale", "depth"], "should look like task=number"),
        (["train", "--data", "scenes", "--root", "/nowhere"], "has no setting `root`"),
        (["train", "--preset", "smal"], "There is no preset of the data `smal`. Did you mean `small`?"),
        (["train", "--model", "hsp"], "There is no model `hsp`. Did you mean `hps`?"),
        (["train", "--epochs", "0"], "Parameter `epochs` should be positive"),
        (["compare", "--methods", "ew,glss"], "There is no method `glss`. Did you mean `gls`?"),
        (["compare", "--methods", "ew,EW"], "should hold distinct methods"),
        (["compare", "--methods", ""], "Parameter `methods` should not be empty"),
        (["compare", "--baseline", "eww"], "There is no method `eww`. Did you mean `ew`?"),
        (["compare", "--seeds", "0"], "Parameter `seeds` should be positive"),
        (["reproduce", "tau", "--data", "sceens"], "There is no data `sceens`. Did you mean `scenes`?"),
        (["methods", "famoo"], "There is no method `famoo`. Did you mean `famo`?"),
        (["report", "/nowhere/at/all"], "There is no folder"),
        (["train", "--batch", "999"], "Parameter `batch` should be at most the number of items, 256"),
        (["compare", "--batch", "999"], "Parameter `batch` should be at most the number of items, 256"),
        (["train", "--micro-batches", "9"], "an item for each of 1 ranks and 9 micro-batches"),
        (["train", "--workers", "-1"], "--workers"),
        (["train", "--threads", "-1"], "--threads"),
        (["train", "--checkpoint-every", "-2"], "--checkpoint-every"),
        (["compare", "--jobs", "-3"], "--jobs"),
        (["compare", "--methods", "ew,gls", "--baseline", "uw"], "Parameter `baseline` should be one of ew, gls"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chdir(tmp_path)
    assert call(*arguments) == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train", "compare", "report"])
def test_a_place_that_is_taken_or_closed_is_refused(
    command: str, compared: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, compared] if command == "report" else [command, *QUICK]
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "diary.txt").write_text("dear diary")
    (tmp_path / "file").write_text("a file")
    before = snapshot(tmp_path)
    for place, sentence in (
        ("taken", "new or empty folder"),
        ("file", "new or empty folder"),
        ("file/inside", "can be written to"),
    ):
        assert call(*arguments, "--out", tmp_path / place) == 2
        assert sentence in capsys.readouterr().err
    assert snapshot(tmp_path) == before


def test_a_run_goes_on_only_with_its_own_settings(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", *QUICK, "--method", "ew", "--out", tmp_path / "run") == 0
    before = snapshot(tmp_path)
    for change in (["--method", "sims"], ["--seed", "9"], ["--rescale", "depth=2"]):
        assert call("train", "--resume", *change, "--out", tmp_path / "run") == 2
        assert "The run to resume has" in capsys.readouterr().err
    assert call("train", *QUICK, "--out", tmp_path / "run") == 2
    assert "new or empty folder" in capsys.readouterr().err
    assert snapshot(tmp_path) == before


def test_the_same_command_resumes_a_run_whatever_its_names_are_short_for(call: Call, tmp_path: Path) -> None:
    words = ["train", "--data", DATA, "--model", "stl:width=8", "--method", "SIMS:tau=1.0", "--batch", "4"]
    words += ["--epochs", "1", "--out", str(tmp_path / "run"), "--resume"]
    assert call(*words) == 0
    before = checkpoint(tmp_path / "run")
    assert call(*words) == 0
    assert_same_tensors(checkpoint(tmp_path / "run"), before)


def test_a_truncated_checkpoint_is_one_sentence(call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("train", *QUICK, "--method", "ew", "--out", tmp_path / "run") == 0
    path = tmp_path / "run" / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:5000])
    before = snapshot(tmp_path)
    capsys.readouterr()
    assert call("train", "--resume", "--out", tmp_path / "run") == 2
    errors = capsys.readouterr().err
    assert "cannot be read" in errors
    assert len(errors.strip().splitlines()) == 1
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("command", ["train", "compare"])
def test_resume_overwrites_nothing_of_others(
    command: str, compared: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diary = tmp_path / "diary"
    diary.mkdir()
    (diary / "results.json").write_text("dear diary")
    run = tmp_path / "run"
    run.mkdir()
    source = compared / "runs" / "hps_width=8_ew_seed=0"
    for name in ("checkpoint.pt", "results.json", "samples.npz"):
        shutil.copy(source / name, run / name)
    before = snapshot(tmp_path)
    assert call(command, *QUICK, "--resume", "--out", diary) == 2
    assert "new or empty folder" in capsys.readouterr().err
    if command == "compare":  # what one run left is none of its folders
        assert call(command, *QUICK, "--resume", "--out", run) == 2
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("damage", ["{}", "x", '{"settings": {}, "run": {}}'])
def test_a_damaged_run_is_one_sentence(
    damage: str, compared: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(compared / "runs" / "hps_width=8_ew_seed=0", tmp_path / "run")
    (tmp_path / "run" / "results.json").write_text(damage)
    assert call("report", tmp_path / "run", "--out", tmp_path / "page") == 2
    errors = capsys.readouterr().err
    assert "should hold a finished training run. Found none, or a damaged one" in errors
    assert len(errors.strip().splitlines()) == 1


def test_runs_of_different_settings_do_not_share_a_table(
    compared: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = compared / "runs" / "hps_width=8_ew_seed=0"
    assert call("report", one, one, "--out", tmp_path / "page") == 2
    assert "Found two of EW with seed 0" in capsys.readouterr().err
    assert call("train", *QUICK, "--lr", "0.1", "--method", "gls", "--out", tmp_path / "other") == 0
    assert call("report", one, tmp_path / "other", "--out", tmp_path / "page") == 2
    assert "should have the same `lr`. Found 0.001 and 0.1" in capsys.readouterr().err


def test_other_runs_in_the_place_of_these_are_refused(compared: Path, call: Call) -> None:
    before = snapshot(compared)
    changed = [*QUICK, "--lr", "0.5"]
    assert call("compare", *changed, "--methods", "ew", "--seeds", "2", "--resume", "--out", compared) == 2
    assert snapshot(compared) == before
