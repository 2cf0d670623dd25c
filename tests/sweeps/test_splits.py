"""Repeated splits: each its own run, the seed of the split apart from that of the weights, means over both."""

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

from helpers.small_tables import write_table
from torchsims.reporting import Report, delta_b_by_label
from torchsims.sweeps import Comparison, find_runs, folder_name, method_grid, run_comparison
from torchsims.training import Execution, RunConfig, complete_config, resolve, train, with_method

QUICK = {"data": "table", "model": "mlp:hidden=8", "epochs": 1, "batch": 32, "tasks": ("weight", "sold")}


def config(folder: Path, **given: object) -> RunConfig:
    return complete_config({**QUICK, "root": str(write_table(folder)), **given})


def compare(base: RunConfig, out: Path, *, seeds: int, splits: int) -> Report:
    plan = Comparison("Methods", method_grid(base, ["ew", "gls"], seeds, splits), base)
    resolved = [resolve(each) for each in plan.configs]
    report = run_comparison(plan, resolved, out, Execution(jobs=1), command="", show=lambda runs: None)
    assert report is not None
    return report


def test_the_grid_has_every_seed_on_every_split() -> None:
    grid = method_grid(RunConfig(data="table", split=3), ["ew", "gls"], seeds=2, splits=2)
    assert [(c.split, c.seed, c.method) for c in grid] == [
        (split, seed, method) for split in (3, 4) for seed in (0, 1) for method in ("ew", "gls")
    ]
    assert len({folder_name(each) for each in grid}) == len(grid)


def test_a_split_is_that_of_its_seed_and_leaves_the_weights(tmp_path: Path) -> None:
    base = config(tmp_path)
    one, same, other = (
        resolve(config(tmp_path, **given)) for given in ({"split": 2}, {"data": "table:split_seed=2"}, {"split": 1})
    )
    rows = [found.workload.split("test")[0]["numbers"] for found in (one, same, other)]
    assert rows[0].equal(rows[1])
    assert not rows[0].equal(rows[2])
    weights = [resolve(each).build_model().state_dict() for each in (base, config(tmp_path, split=1))]
    assert all(value.equal(weights[1][name]) for name, value in weights[0].items())


def test_rows_say_the_split_and_means_are_over_splits_and_seeds(tmp_path: Path) -> None:
    report = compare(config(tmp_path), tmp_path / "out", seeds=2, splits=2)
    assert [(row["method"], row["splits"], row["seeds"]) for row in report.rows] == [("EW", 2, 2), ("GLS", 2, 2)]
    runs = [row for row in report.details["Runs"] if row["method"] == "EW"]
    assert [(row["split"], row["seed"]) for row in runs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    found = [float(str(row["weight mae"])) for row in runs]
    assert len(set(found)) == 4
    assert report.rows[0]["weight mae"] == pytest.approx(mean(found))
    assert report.rows[0]["weight mae sd"] == pytest.approx(stdev(found))
    assert any("means over splits and seeds" in note for note in report.notes)
    by_split = delta_b_by_label(find_runs([tmp_path / "out"]), "EW")["EW"]
    assert [sum(by_split[:2]), sum(by_split[2:])] == pytest.approx(
        [0, 0], abs=1e-9
    )  # the baseline of each split is its own
    gathered = find_runs([tmp_path / "out"])
    assert [(run.label, run.split, run.seed) for run in gathered if run.label == "EW"] == [
        ("EW", split, seed) for split in (0, 1) for seed in (0, 1)
    ]


def test_a_comparison_of_splits_takes_up_finished_runs(tmp_path: Path) -> None:
    base, out = config(tmp_path), tmp_path / "out"
    first = compare(base, out, seeds=1, splits=1)
    stamps = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/results.json")}
    report = compare(base, out, seeds=1, splits=2)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    assert [row["weight mae"] for row in report.details["Runs"] if row["split"] == 0] == [
        row["weight mae"] for row in first.rows
    ]


@pytest.mark.parametrize(
    ("given", "splits", "sentence"),
    [
        ({"data": "scenes"}, 2, r"`splits` should be 1: data `scenes` has splits of its own. Found 2."),
        ({"data": "nyuv2"}, 5, r"`splits` should be 1: data `nyuv2` has splits of its own. Found 5."),
        ({"data": "table"}, 0, r"`splits` should be positive. Found `splits = 0`."),
    ],
)
def test_data_with_their_own_splits_are_refused(given: dict[str, str], splits: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        method_grid(RunConfig(**given), ["ew"], 1, splits)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"has no setting `split`. Found `split = 3`."):
        resolve(RunConfig(data="scenes", split=3))


def test_both_epochs_are_in_results_and_tables(tmp_path: Path) -> None:
    wild = config(tmp_path, lr=0.3, warmup=0.0, epochs=6, select="best", select_by="weight")
    report = compare(wild, tmp_path / "out", seeds=1, splits=2)
    last = {
        (method, split): train(config(tmp_path, lr=0.3, warmup=0.0, epochs=6, method=method, split=split), path)
        for method in ("ew", "gls")
        for split in (0, 1)
        if (path := tmp_path / f"{method}{split}")
    }
    assert [row["weight mae"] for row in report.last_rows] == pytest.approx(
        [mean(last[method, split].metrics["weight"]["mae"] for split in (0, 1)) for method in ("ew", "gls")]
    )
    assert report.rows[0]["epoch"] != report.last_rows[0]["epoch"] == 6  # at this rate an early epoch is better
    assert [row["weight mae"] for row in report.rows] != [row["weight mae"] for row in report.last_rows]
    folder = tmp_path / "out" / "runs" / folder_name(with_method(wild, "ew"))
    stored = json.loads((folder / "results.json").read_text())
    assert stored["last_rows"][0]["epoch"] == 6
