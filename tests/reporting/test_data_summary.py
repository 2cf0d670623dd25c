"""What a page says of the data: from the data's own summary, carried by the run, escaped, and rendered."""

import html
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.finished_runs import finished_run, finished_runs
from torchsims.reporting import Report, comparison_report, run_report, write_report
from torchsims.training.run import DataSummary, Run
from torchsims.workloads import load_workload


def write_table(path: Path, rows: int = 200) -> Path:
    """Write a table with three gaps in ten of one column, and one in ten of a target."""
    rng = np.random.default_rng(0)
    lines = ["id,size,colour,price,sold"]
    for i in range(rows):
        size = "" if i % 10 < 3 else f"{rng.random():.3f}"
        price = "" if i % 10 == 5 else f"{rng.random():.3f}"
        lines.append(f"{i},{size},{'ab'[i % 2]},{price},{i % 2}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_says_what_was_read_of_it(tmp_path: Path) -> None:
    workload = load_workload("table", ("price", "sold"), str(write_table(tmp_path / "a <b>.csv")))
    facts = workload.data_facts()
    assert facts == {
        "file": "a <b>.csv",
        "rows": "160 training, 20 validation, 20 test",
        "tasks": "price (1 output), sold (1 output)",
        "columns": "2 targets, 2 features, 1 left out",
        "missing": "size 30 %, price 10 %",
    }
    assert [row["column"] for row in workload.describe_data()] == ["price", "sold", "size", "colour", "id"]


def test_images_say_their_number_and_size() -> None:
    workload = load_workload("scenes:images=8:resolution=32", ("seg", "depth"), "")
    assert workload.data_facts() == {
        "images": "8 training, 64 validation, 128 test",
        "tasks": "seg (8 outputs), depth (1 output)",
        "size": "32 x 32 pixels",
    }


def test_a_run_carries_the_summary_and_an_older_one_has_none() -> None:
    run = replace(finished_run("EW", 0, pictures=False), data=DataSummary({"rows": "3"}, [{"column": "a"}]))
    stored = json.loads(json.dumps(run.to_dict()))
    assert Run.from_dict(stored, run.config).data == run.data
    del stored["data"]
    assert Run.from_dict(stored, run.config).data is None
    with pytest.raises(ValueError, match="should be of type str"):
        Run.from_dict({**stored, "data": {"facts": {"rows": 3}, "columns": []}}, run.config)


def test_the_page_shows_the_summary_of_the_first_run_that_has_one(tmp_path: Path) -> None:
    data = DataSummary({"file": "<i>x</i>.csv"}, [{"column": "<u>", "read as": "number"}])
    runs = finished_runs(["EW", "SIMS"], seeds=1, pictures=False)
    runs[1] = replace(runs[1], data=data)
    for name, report in {
        "many": replace(comparison_report("", "", runs, baseline="EW"), figures={}),
        "one": run_report(runs[1], "", draw=False),
    }.items():
        write_report(report, tmp_path / name, 1.0)
        page = (tmp_path / name / "report.html").read_text()
        assert "<dt>file</dt><dd>&lt;i&gt;x&lt;/i&gt;.csv</dd>" in page
        assert "How columns were read (1)" in page
        assert '<th scope="row">&lt;u&gt;</th><td>number</td>' in page
        assert json.loads((tmp_path / name / "results.json").read_text())["data"]["facts"] == data.facts
    assert 'id="data"' not in _page(Report("", "", {}, []), tmp_path / "none")


def test_backticks_are_rendered_and_names_stay_names(tmp_path: Path) -> None:
    notes = ["Parameter `tau` should be positive. Found `tau = <b>`.", "a ` alone", "`"]
    page = _page(
        Report("A `title`", "torchsims `x`", {"a": "`raw`"}, [{"method": "`m`"}], notes=notes), tmp_path / "out"
    )
    assert "<p>Parameter <code>tau</code> should be positive. Found <code>tau = &lt;b&gt;</code>.</p>" in page
    assert "<p>a ` alone</p>" in page
    assert '<th scope="row">`m`</th>' in page  # a cell is a value, not a text of ours


def test_the_verdict_is_on_the_page_and_in_the_results(tmp_path: Path) -> None:
    report = comparison_report("", "", finished_runs(["EW", "SIMS", "<b>"], pictures=False), baseline="EW")
    assert report.verdict is not None
    page = _page(replace(report, figures={}), tmp_path / "out")
    assert html.escape(" ".join(report.verdict.sentences), quote=False) in page.replace("&#39;", "'")
    stored = json.loads((tmp_path / "out" / "results.json").read_text())["verdict"]
    assert stored["sentences"] == list(report.verdict.sentences)
    assert stored["best"] == report.verdict.best
    assert stored["failed"] == {"SIMS": "1 of 3 seeds"}


def _page(report: Report, out: Path) -> str:
    write_report(report, out, 1.0)
    return (out / "report.html").read_text()
