"""Tables of runs, and what is shown while they go on."""

import io
import math
import statistics

import numpy as np
import pytest

from helpers.finished_runs import METRICS, finished_run, finished_runs
from torchsims.reporting import Column, Row, RunState, RunStatus, live_table, markdown, runs_table, show_progress
from torchsims.reporting._runs import run_columns, summary_table
from torchsims.training.config import RunConfig
from torchsims.training.run import History, Run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_a_row_holds_means_and_sample_standard_deviations(seeds: int) -> None:
    runs = [finished_run(label, seed, pictures=False) for seed in range(seeds) for label in ("SIMS", "EW")]
    rows = summary_table(runs)
    assert [row["method"] for row in rows] == ["SIMS", "EW"]
    for row in rows:
        group = [run for run in runs if run.label == row["method"]]
        assert row["seeds"] == seeds
        for task, metrics in METRICS.items():
            for name in metrics:
                values = [run.metrics[task][name] for run in group]
                assert row[f"{task} {name}"] == pytest.approx(np.mean(values))
                assert row[f"{task} {name} sd"] == pytest.approx(statistics.stdev(values))
                assert row[f"{task} {name} sd"] == pytest.approx(np.std(values, ddof=1))


def test_one_seed_has_no_standard_deviation_and_a_broken_run_no_mean() -> None:
    (row,) = summary_table([finished_run("EW", 0, pictures=False)])
    assert row["seg miou sd"] is None
    (row,) = summary_table([finished_run("EW", 0, pictures=False), finished_run("EW", 1, ends=2, pictures=False)])
    assert math.isnan(row["seg miou"])  # type: ignore[arg-type]
    assert math.isnan(row["seg miou sd"])  # type: ignore[arg-type]
    assert row["seeds"] == 2


def test_extra_columns_have_means_and_deviations_too() -> None:
    runs = finished_runs(["EW", "SIMS"], pictures=False)
    ew, sims = summary_table(runs, {"Delta_b": {"EW": [1.0, 2.0, 6.0]}})
    assert (ew["Delta_b"], ew["Delta_b sd"]) == (3.0, pytest.approx(np.std([1, 2, 6], ddof=1)))
    assert "Delta_b" not in sims


def tabular_run(label: str, seed: int, metrics: dict[str, dict[str, float]], trained: str) -> Run:
    history = History(losses={task: [1.0] for task in trained})
    higher = {task: {name: name != "mae" for name in of} for task, of in metrics.items()}
    return Run(label, RunConfig(seed=seed), metrics, higher, history)


def test_a_mean_over_tasks_is_of_metrics_without_a_unit_that_two_tasks_have() -> None:
    number = {"r2": 0.5, "mae": 7.0}
    metrics = {"a": number, "b": {"r2": 0.25, "mae": 1.0}, "c": {"auc": 0.75, "accuracy": 0.5}, "d": {"auc": 0.25}}
    (row,) = summary_table([tabular_run("EW", 0, metrics, "abcd")])
    assert {name: value for name, value in row.items() if name.startswith("mean")} == {
        "mean r2": 0.375,
        "mean r2 sd": None,
        "mean auc": 0.5,
        "mean auc sd": None,
    }
    (run,) = runs_table([tabular_run("EW", 0, metrics, "abcd")])
    assert {name for name in run if name.startswith("mean")} == {"mean r2", "mean auc"}
    headers = [column.header for column in run_columns([tabular_run("EW", 0, metrics, "abcd")])]
    assert headers[:2] == ["mean r2 ↑", "mean auc ↑"]


def test_a_mean_over_tasks_has_the_deviation_of_its_seeds_and_leaves_nothing_out() -> None:
    values = [(0.5, 0.75), (0.6, 0.95)]
    runs = [
        tabular_run("EW", i, {"a": {"auc": x}, "b": {"auc": y}, "c": {"auc": 0}}, "ab")
        for i, (x, y) in enumerate(values)
    ]
    (row,) = summary_table(runs)
    means = [(x + y) / 2 for x, y in values]
    assert row["mean auc"] == pytest.approx(statistics.fmean(means))  # of what was trained
    assert row["mean auc sd"] == pytest.approx(statistics.stdev(means))
    broken = tabular_run("EW", 2, {"a": {"auc": math.nan}, "b": {"auc": 0.9}}, "")
    (row,) = summary_table([*runs, broken])
    assert math.isnan(row["mean auc"])  # type: ignore[arg-type]


def test_a_table_of_runs_has_every_number() -> None:
    runs = finished_runs(["EW", "SIMS"], pictures=False)
    rows = runs_table(runs)
    assert [(row["method"], row["seed"]) for row in rows] == [(run.label, run.seed) for run in runs]
    assert all(row["depth rel_err"] is run.metrics["depth"]["rel_err"] for row, run in zip(rows, runs, strict=True))


@pytest.mark.parametrize(("higher", "best"), [(True, {1}), (False, {2}), (None, set())])
def test_the_best_number_has_the_right_direction_and_is_one(higher: bool | None, best: set[int]) -> None:
    rows: list[Row] = [{"x": math.nan}, {"x": 3.0}, {"x": -1.0}, {"x": None}, {}]
    assert Column("x", higher).best(rows) == best


def test_numbers_that_look_the_same_are_best_together() -> None:
    assert Column("x", True).best([{"x": 0.700001}, {"x": 0.700002}, {"x": 0.6}]) == {0, 1}
    assert Column("x", True).best([{"x": 0.7}]) == set()


def test_an_exploded_number_takes_no_digits_from_the_others() -> None:
    rows = [{"x": 0.71234}, {"x": 0.5}, {"x": 3e30}]
    assert Column("x", False).cells(rows) == ["0.7123", "0.5000", "3.000e+30"]


def test_markdown_shows_means_and_deviations_in_one_cell_and_escapes_bars() -> None:
    text = markdown([{"method": "a|b", "x": 1.0, "x sd": 0.5}], [Column("x", False, "x sd")])
    assert text.splitlines() == ["| method | x ↓ |", "| --- | --- |", "| a\\|b | 1.000 ± 0.500 |"]


def test_notes_stand_beside_the_bar_and_on_the_lines() -> None:
    lines, terminal = io.StringIO(), Terminal()
    for stream in (lines, terminal):
        with show_progress(stream) as progress:
            advance = progress("SIMS [a]", 4)
            for i in range(4):
                advance(1, f"seg 0.{i}")
    assert lines.getvalue() == "SIMS [a]: 50 %  seg 0.1\nSIMS [a]: 100 %  seg 0.3\n"
    assert "SIMS [a]" in terminal.getvalue()
    assert "seg 0.3" in terminal.getvalue()


def test_lines_are_printed_when_a_run_starts_and_ends_only() -> None:
    stream = io.StringIO()
    with live_table(stream) as show:
        second = [(RunState.WAITING, ""), (RunState.RUNNING, "epoch 1 of 3"), (RunState.FAILED, "the loss is NaN")]
        for epoch in range(3):
            first = RunStatus("EW", 0, RunState.RUNNING, f"epoch {epoch + 1} of 3")
            show([first, RunStatus("EW", 1, *second[epoch])])
        show([RunStatus("EW", 0, RunState.DONE), RunStatus("EW", 1, *second[2])])
    assert stream.getvalue().splitlines() == [
        "EW seed 0: running, epoch 1 of 3",
        "EW seed 1: running, epoch 1 of 3",
        "EW seed 1: failed, the loss is NaN",
        "EW seed 0: done",
    ]


def test_a_terminal_shows_the_whole_table_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "12")
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    runs = [RunStatus(f"M{i}", 0, RunState.DONE if i < 30 else RunState.RUNNING) for i in range(40)]
    with live_table(stream) as show:
        show(runs)
        first = stream.getvalue()
    assert "M35" in first
    assert "M0 " not in first
    assert "30 done" in first
    assert all(f"M{i} " in stream.getvalue()[len(first) :] for i in range(40))
