"""Reports of runs: fields instead of sentences, every setting on the page, and any text as a name."""

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from helpers.finished_runs import METRICS, finished_run, finished_runs
from torchsims.reporting import (
    Report,
    RunState,
    RunStatus,
    comparison_report,
    delta_b_by_label,
    live_table,
    markdown,
    output_names,
    prediction_report,
    run_report,
    write_report,
)
from torchsims.reporting._report import Failure, Starved
from torchsims.reporting._tables import file_name
from torchsims.training.config import RunConfig, setting
from torchsims.training.run import History, Run
from torchsims.workloads import FilePrediction
from torchsims.workloads.task import Display

NASTY = [
    "$x_{$",
    "$\\frac$",
    "mg/dL",
    "a|b",
    "a\\|b",
    "two\nlines\r\nand\u2028more",
    "<b>bold</b><script>alert(1)</script>",
    "&lt; {{ 7 * 7 }} {% raw %}",
    "emoji 🙂 和 ä",
    "_hidden",
    "..",
    ".",
    "/",
    "C:\\x",
    " ",
    "tab\tnull\x00escape\x1b[31m",
    "no character \ufffe",
    '`code` and "quotes" \' `',
    "\ud800",
    "x" * 300,
    "mean",
    "all",
    "image",
    "seed",
]


def nasty_run(label: str, seed: int = 0, tasks: Sequence[str] = NASTY, value: float = 0.5) -> Run:
    metrics = {task: {"r2": value} for task in tasks}
    history = History(
        losses={task: [1.0, 0.5] for task in tasks},
        weights={task: [0.5, 0.5] for task in tasks},
        influence={task: [0.5, 0.5] for task in tasks},
        validation={task: {"r2": [0.25, value]} for task in tasks},
    )
    maps = np.zeros((1, 4, 4), dtype=int)
    samples = {f"{what}/{task}": maps for what in ("truth", "prediction") for task in tasks[:4]}
    samples["image"] = np.zeros((1, 3, 4, 4))
    higher = {task: {"r2": True} for task in tasks}
    return Run(label, RunConfig(seed=seed), metrics, higher, history, samples=samples, starved=tasks[:2])


def cells(table: str) -> list[list[str]]:
    """Return the cells of a Markdown table, as a reader of GitHub's tables sees them."""
    rows = []
    for line in table.splitlines():
        row, escaped = [""], False
        for letter in line.strip().removeprefix("| ").removesuffix(" |"):
            if letter == "|" and not escaped:
                row.append("")
            elif letter == "\\" and not escaped:
                escaped = True
                continue
            else:
                row[-1] += letter
            escaped = False
        rows.append([text.strip() for text in row])
    return rows


@pytest.mark.parametrize(("labels", "tasks"), [(NASTY, ["a", "$b$"]), (["EW", "$x$"], NASTY)], ids=["label", "task"])
def test_any_text_is_a_label_or_a_task(labels: list[str], tasks: list[str], tmp_path: Path) -> None:
    runs = [nasty_run(label, 0, tasks, 0.5 + i / 100) for i, label in enumerate(labels)]
    runs.append(replace(nasty_run(labels[0], 2, tasks, math.nan), history=History(), failure="<i>why</i>"))
    report = comparison_report(NASTY[6], "torchsims compare", runs, baseline=labels[0])
    legend = report.figures["training"].legends[0]
    assert len(legend.get_texts()) == len(labels)
    write_report(replace(report, figures={**report.figures, "mg/dL": report.figures["ranks"]}), tmp_path / "out", 1.0)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1  # our own
    for markup in ("<script>alert", "<b>bold", "<i>why"):
        assert markup not in page
    assert "{{ 7 * 7 }}" in html.unescape(page)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert "mg%2fdL.png" in names
    tables = (tmp_path / "out" / "table.md").read_text(encoding="utf-8").split("\n\n")
    for rows, table in ((report.rows, tables[0]), (report.details["Runs"], tables[2])):
        found = cells(table)
        assert len(found) == 2 + len(rows)
        assert len(set(map(len, found))) == 1
    names = {row[0] for row in cells(tables[0])} | {name.removesuffix(" r2 ↑") for name in cells(tables[0])[0]}
    assert {"a|b", r"a\|b", "two lines and more"} <= names
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [row["method"] for row in results["rows"]] == labels
    assert all(f"{task} r2" in results["rows"][0] for task in tasks)


def test_a_task_called_mean_is_not_the_mean() -> None:
    run = nasty_run("EW", tasks=["a", "mean"])
    metrics = {**run.metrics, "mean": {"r2": 0.25}}
    row = comparison_report("", "", [replace(run, metrics=metrics)], baseline="").rows[0]
    assert row["mean r2"] == 0.25
    assert row["mean over tasks r2"] == pytest.approx(0.5 - 0.25 / len(metrics))


def test_names_of_files_are_safe_and_distinct(tmp_path: Path) -> None:
    names = [file_name(text) for text in [*NASTY, "", "x" * 299 + "y", "🙂" * 99]]
    assert len(set(names)) == len(names)
    for name in names:
        (tmp_path / f"{name}.png").touch()
    assert len(list(tmp_path.iterdir())) == len(names)


def test_a_live_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with live_table() as show:
        show([RunStatus(label, 0, RunState.FAILED, "a\nb") for label in NASTY])
    assert len(capsys.readouterr().err.splitlines()) == len(NASTY)


def test_starved_tasks_and_failures_are_fields(tmp_path: Path) -> None:
    runs = finished_runs(["EW", "SIMS"], seeds=2, pictures=False)
    runs[0] = replace(runs[0], starved=("depth", "Failed: seg"))
    lost = {task: dict.fromkeys(metrics, math.nan) for task, metrics in METRICS.items()}
    runs[3] = replace(runs[3], metrics=lost, failure="Starved: the loss is <NaN>.")
    report = comparison_report("Runs", "torchsims compare", runs, baseline="EW", notes=["Failed: not at all."])
    assert report.starved == [Starved("EW", 0, ("depth", "Failed: seg"))]
    assert report.failures == [Failure("SIMS", 1, "Starved: the loss is <NaN>.")]
    write_report(replace(report, figures={}), tmp_path / "out", 1.0)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["starved"] == [{"label": "EW", "seed": 0, "tasks": ["depth", "Failed: seg"], "split": 0}]
    assert results["failures"] == [{"label": "SIMS", "seed": 1, "sentence": "Starved: the loss is <NaN>.", "split": 0}]
    assert results["rows"][1]["seg miou"] is None  # a run that failed is not left out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<li>EW, seed 0, gave almost no weight to depth, Failed: seg.</li>" in page
    assert "<li>SIMS, seed 1: Starved: the loss is &lt;NaN&gt;.</li>" in page


def test_delta_b_is_relative_to_the_mean_of_the_baseline() -> None:
    runs = [Run(label, RunConfig(), {"a": {"e": x}}, {"a": {"e": False}}, History()) for label, x in
            [("EW", 1.0), ("EW", 3.0), ("SIMS", 1.0), ("GLS", math.nan)]]  # fmt: skip
    found = delta_b_by_label(runs, "EW")
    assert (found["EW"], found["SIMS"]) == ([0.5, -0.5], [0.5])
    assert math.isnan(found["GLS"][0])
    assert delta_b_by_label(runs, "UW") == {}
    zero = [replace(run, metrics={"a": {"e": 0.0}}) for run in runs]
    assert all(math.isnan(value) for values in delta_b_by_label(zero, "EW").values() for value in values)


def test_pairs_of_rescaled_runs_are_found_by_their_field() -> None:
    runs = finished_runs(["EW", "EW, depth x 100", "SIMS x 2", "Other"], seeds=1, pictures=False)
    assert "rescaled" not in comparison_report("", "", runs, baseline="EW").figures
    runs[3] = replace(runs[3], rescaled="EW")
    runs[2] = replace(runs[2], rescaled="not there")
    (axis,) = comparison_report("", "", runs, baseline="EW").figures["rescaled"].axes
    assert [label.get_text().splitlines()[0] for label in axis.get_yticklabels()] == ["EW"]


def test_passes_stand_beside_the_label() -> None:
    run = replace(finished_run("SIMS", 0, pictures=False), passes="2+2")
    assert list(comparison_report("", "", [run], baseline="").rows[0].items())[1] == ("passes", "2+2")


@dataclass(frozen=True)
class LargerConfig(RunConfig):
    momentum: float = setting(0.875, "Another setting.")


def test_a_new_setting_appears_on_the_page_by_itself(tmp_path: Path) -> None:
    run = Run("SIMS", LargerConfig(), {"a": {"r2": 0.5}}, {"a": {"r2": True}}, History())
    write_report(run_report(run, "torchsims train", draw=False), tmp_path / "run", 1.0)
    compared = comparison_report("", "", [run, replace(run, config=LargerConfig(seed=1))], baseline="SIMS")
    write_report(compared, tmp_path / "compared", 1.0)
    for name in ("run", "compared"):
        page = (tmp_path / name / "report.html").read_text()
        assert '<th scope="row">momentum</th><td>0.875</td>' in page
        assert json.loads((tmp_path / name / "results.json").read_text())["settings"]["momentum"] == 0.875
    assert '<th scope="row">seed</th><td>(0, 1)</td>' in page


def test_both_epochs_are_shown_where_another_one_was_selected() -> None:
    run = finished_run("SIMS", 0, pictures=False)
    last = {task: dict.fromkeys(metrics, 0.125) for task, metrics in METRICS.items()}
    both = replace(run, selected=3, last_metrics=last)
    single = run_report(both, "torchsims train", draw=False)
    assert single.rows[0]["seg miou"] == run.metrics["seg"]["miou"]
    assert single.rows[0]["epoch"] == 3
    assert single.details["After the last epoch"][0]["seg miou"] == 0.125
    assert "at epoch 3, selected on the validation split" in single.notes[0]
    report = comparison_report("", "", [replace(run, label="EW"), both], baseline="EW")
    ew, sims = report.details["Means after the last epoch"]
    assert (ew["seg miou"], sims["seg miou"]) == (report.rows[0]["seg miou"], 0.125)
    assert report.rows[1]["seg miou"] == run.metrics["seg"]["miou"]
    assert not comparison_report("", "", [run], baseline="").details.keys() - {"Runs"}


@pytest.mark.parametrize(("setting", "dot"), [("seed", "one dot per seed."), ("split", "one dot per run.")])
def test_a_dot_is_a_run_where_there_are_several_splits(setting: str, dot: str) -> None:
    run = replace(finished_run("EW", 0, pictures=False), last_metrics={})
    runs = [
        replace(run, config=replace(run.config, select="best", **{setting: i}), selected=epoch)  # type: ignore[arg-type]
        for i, epoch in enumerate((1, 1, 2))
    ]
    report = comparison_report("", "", runs, baseline="EW")
    assert all(report.captions[name].endswith(dot) for name in ("delta", "ranks"))
    assert report.rows[0]["epoch"] == 1.3  # their mean, with one decimal


def test_predictions_of_any_task_have_files_of_their_own() -> None:
    maps, image = np.zeros((3, 4), dtype=int), np.zeros((3, 4, 3))
    sources = [Path("a.png"), Path("a_all.png"), Path("odd 'name'.png")]
    kinds: dict[str, Display] = dict.fromkeys(NASTY, "classes")
    rows = [{"task": task} for task in NASTY]
    found = [FilePrediction(path, dict.fromkeys(NASTY, maps), rows, image=image, shown_as=kinds) for path in sources]
    files, report = prediction_report(Path("my run"), found)
    figures = {f"{name}.png" for name in report.figures}
    assert len(files) == len(sources) * len(NASTY)
    assert len(figures) == len(sources)
    assert not figures & files.keys()
    assert not any("/" in name for name in files)
    assert [row["file"] for row in report.rows] == list(files) == report.downloads
    assert report.command == """torchsims predict 'my run' a.png a_all.png 'odd '"'"'name'"'"'.png'"""


def test_files_of_predictions_are_named_after_their_input() -> None:
    rows = [{"task": task, "rows": 3} for task in NASTY]
    found = FilePrediction(Path("t.csv.gz"), {}, rows, "One line per row.", {"predictions.csv": b"1"})
    files, report = prediction_report(Path("run"), [found, replace(found, path=Path("u.csv"))])
    assert files == {"t_predictions.csv": b"1", "u_predictions.csv": b"1"}
    assert [row["task"] for row in report.rows] == 2 * NASTY
    assert report.notes == ["One line per row."]
    with pytest.raises(ValueError, match="Found more than one `a`"):
        output_names([Path("a.csv"), Path("b/a.csv.gz")])


def test_a_page_links_to_the_files_beside_it(tmp_path: Path) -> None:
    report = Report("Predictions", "torchsims predict", {}, [], downloads=["a_mg%2fdL.png"])
    write_report(report, tmp_path / "out", 1.0)
    assert '<a href="a_mg%252fdL.png">a_mg%2fdL.png</a>' in (tmp_path / "out" / "report.html").read_text()
    assert markdown([]) == "|  |\n|  |"
