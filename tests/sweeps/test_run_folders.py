"""Finished runs are read back from their folders, if they belong in one table."""

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.finished_runs import finished_run
from torchsims.reporting import run_report, write_report
from torchsims.sweeps import find_runs
from torchsims.sweeps.folders import read_run
from torchsims.training import Run


def write_run(folder: Path, run: Run) -> Path:
    write_report(run_report(run, "torchsims train", draw=False), folder, 1.0)
    return folder


def test_a_finished_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = finished_run("EW", 3, pictures=False)
    folder = write_run(tmp_path / "run", run)
    (found,) = find_runs([folder])
    assert (found.config, found.metrics) == (run.config, run.metrics)
    assert found.history.to_dict() == run.history.to_dict()
    assert read_run(tmp_path / "no such folder") is None
    with pytest.raises(ValueError, match="holds a run with another configuration: torchsims train"):
        read_run(folder, replace(run.config, seed=0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Every run should be there once. Found two of EW with seed 0."),
        ({"epochs": 3}, "All runs of a page should have the same `epochs`."),
        ({"seed": 1, "model": "hps:width=8"}, "All runs called EW should have the same model."),
    ],
)
def test_runs_that_do_not_belong_in_one_table_are_an_error(
    changes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    run = finished_run("EW", 0, pictures=False)
    other = replace(run, config=replace(run.config, **changes))  # type: ignore[arg-type]
    folders = [write_run(tmp_path / "a", run), write_run(tmp_path / "b", other)]
    with pytest.raises(ValueError, match=sentence):
        find_runs(folders)


def test_runs_on_data_that_changed_do_not_belong_in_one_table(tmp_path: Path) -> None:
    run = replace(finished_run("EW", 0, pictures=False), fingerprint="a")
    for name, other in (("changed", "b"), ("same", "a"), ("older", "")):
        second = replace(run, config=replace(run.config, seed=1), fingerprint=other)
        folders = [write_run(tmp_path / name / "a", run), write_run(tmp_path / name / "b", second)]
        if name == "changed":
            with pytest.raises(ValueError, match="should be trained on the same data"):
                find_runs(folders)
        else:
            assert [found.fingerprint for found in find_runs(folders)] == ["a", other]
