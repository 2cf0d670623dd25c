"""`torchsims front`: models along the front, a choice, and predictions with it."""

import csv
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import torchsims
from helpers.commands import Call, results
from torchsims.training.checkpoints import read_checkpoint

ROWS = 96


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two targets that one hidden unit cannot both have."""
    x = torch.randn(ROWS, 2, generator=torch.Generator().manual_seed(0))
    lines = [f"{a},{b},{a},{100 * b}" for a, b in x.tolist()]
    path = tmp_path_factory.mktemp("front") / "table.csv"
    path.write_text("\n".join(["u,v,near,far", *lines]) + "\n")
    return path


def words(table: Path, *more: object, method: str = "logmerit:tau=0.3") -> list[object]:
    settings = ["--model", "mlp:hidden=1:layers=1", "--epochs", 3, "--batch", 16, "--lr", 0.03, "--jobs", 1]
    return ["front", "--csv", table, "--targets", "near,far", "--method", method, "--points", 3, *settings, *more]


def numbers(out: Path) -> list[dict[str, Any]]:
    found = results(out)
    return [*found["rows"], *found["details"]["Training losses of the last epoch"]]


def test_a_front_is_a_table_a_figure_a_choice_and_runs_to_predict_with(
    call: Call, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert call(*words(table, "--out", out)) == 0
    found = results(out)
    assert {"command", "settings", "versions", "seconds", "rows"} <= found.keys()
    assert [row["prefer near"] for row in found["rows"]] == [4.0, 1.0, 0.25]
    assert {"chosen.txt", "front.png", "report.html", "table.md"} <= {path.name for path in out.iterdir()}
    assert any("Hypervolume of the test metrics" in note for note in found["notes"])
    assert any(note.endswith("; one run each.") for note in found["notes"])
    assert "Runs" not in found["details"]  # a point is one run
    page = (out / "report.html").read_text()
    legends = re.findall(r">(point \d[^<]*|[^<]* preferred [^<]*)</text>", page)
    assert set(legends) == {"point 1", "point 2", "point 3"}  # and not a method with all its preferences
    (chosen,) = [row["point"] for row in found["rows"] if row["chosen"]]
    run = out / "runs" / (out / "chosen.txt").read_text().strip()
    assert results(run)["settings"]["prefer"]["near"] == found["rows"][chosen - 1]["prefer near"]

    assert call("predict", out, table, "--out", tmp_path / "from_front") == 0
    assert call("predict", run, table, "--out", tmp_path / "from_run") == 0
    texts = [(tmp_path / name / "table_predictions.csv").read_text() for name in ("from_front", "from_run")]
    assert texts[0] == texts[1]
    assert len(list(csv.reader(texts[0].splitlines()))) == ROWS + 1

    other = 1 if chosen != 1 else 3
    times = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*/checkpoint.pt")}
    assert call(*words(table, "--out", out, "--resume", "--choose", other)) == 0
    assert [row["point"] for row in results(out)["rows"] if row["chosen"]] == [other]
    assert times == {path: path.stat().st_mtime_ns for path in times}  # nothing is trained again
    assert "by its number" in results(out)["notes"][0]
    (out / "chosen.txt").write_text("../../elsewhere")
    capsys.readouterr()
    assert call("predict", out, table, "--out", tmp_path / "again") == 2
    assert "should name a folder in" in capsys.readouterr().err


@pytest.mark.parametrize(("method", "factor"), [("sims:tau=0.3", 1024), ("logmerit:tau=0.3", 1000)])
def test_a_factor_of_a_loss_changes_nothing(call: Call, table: Path, tmp_path: Path, method: str, factor: int) -> None:
    """A power of two not a bit, any other one the rounding."""
    for name, value in (("plain", 1), ("scaled", factor)):
        assert call(*words(table, "--rescale", f"near={value}", "--out", tmp_path / name, method=method)) == 0
    plain, scaled = numbers(tmp_path / "plain"), numbers(tmp_path / "scaled")
    for row, other in zip(plain, scaled, strict=True):
        assert row == (other if factor == 1024 else pytest.approx(other, rel=1e-3, abs=1e-5))


def test_a_factor_changes_a_weighted_sum(call: Call, table: Path, tmp_path: Path) -> None:
    """Negative control, and a method with weights by hand in place of a preference."""
    found = []
    for factor in (1, 1024):
        out = tmp_path / str(factor)
        assert call(*words(table, "--rescale", f"near={factor}", "--out", out, method="fixed")) == 0
        found.append([row["near r2"] for row in results(out)["rows"]])
    assert max(abs(a - b) for a, b in zip(*found, strict=True)) > 0.01


@pytest.mark.parametrize("method", ["sims:tau=0.3", "logmerit:tau=0.3"])
def test_a_warm_start_goes_on_from_the_nearest_point_with_its_first_losses(
    call: Call, table: Path, tmp_path: Path, method: str
) -> None:
    out = tmp_path / "out"
    assert call(*words(table, "--warm-epochs", 1, "--out", out, method=method)) == 0
    configs = {Path(run).name: results(run)["settings"] for run in (out / "runs").iterdir()}
    by_near = sorted(configs, key=lambda name: -configs[name]["prefer"]["near"])
    assert [configs[name]["epochs"] for name in by_near] == [3, 1, 1]
    assert [Path(configs[name]["start"]).name for name in by_near] == ["", *by_near[:2]]
    first = []
    for name in by_near:
        state = read_checkpoint(out / "runs" / name / "checkpoint.pt")["trainer"]["method"]
        first.append(state["first_losses"]["first"] if "sims" in method else state["scalarization"]["reference"])
    assert torch.equal(first[0], first[1])
    assert torch.equal(first[0], first[2])


def test_a_run_starts_where_another_one_ended(call: Call, table: Path, tmp_path: Path) -> None:
    common = ["--csv", table, "--targets", "near,far", "--epochs", 1, "--batch", 16, "--method", "gls"]
    assert call("train", *common, "--out", tmp_path / "one") == 0
    assert call("train", *common, "--lr", 1e-30, "--start", tmp_path / "one", "--out", tmp_path / "two") == 0
    one, two = (torchsims.training.load_model(tmp_path / name)[1].state_dict() for name in ("one", "two"))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--method", "ew"], "Method `ew` has no preference."),
        (["--points", "1"], "Parameter `points` should be at least the number of tasks, 2. Found `points = 1`."),
        (["--spread", "0.5"], "Parameter `spread` should be above 1 and finite. Found `spread = 0.5`."),
        (["--choose", "4"], "Parameter `choose` should be balanced or the number of a point, 1 to 3."),
        (["--rescale", "nea=3"], "There is no task `nea`. Did you mean `near`?"),
        (["--prefer", "near=3"], "No such option: --prefer"),
    ],
)
def test_bad_input_is_one_sentence(
    more: list[str], sentence: str, call: Call, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*words(table), *more, "--out", tmp_path / "out") == 2
    errors = capsys.readouterr().err.strip()
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_one_sentence_before_anything_is_trained(
    call: Call, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torchsims.fronts", "torchsims.fronts.plan"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "moocore", None)
    assert call(*words(table, "--out", tmp_path / "out")) == 2
    errors = capsys.readouterr().err.strip()
    assert "A package is missing: pip install 'torchsims[experiments]'." in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--start", "nowhere"], "There is no run with a checkpoint in `nowhere`."),
        (["--start", "ONE", "--model", "mlp:hidden=3"], "The run to start from has `model = "),
        (["--start", "ONE", "--rescale", "near=2"], "The run to start from has `rescale = {}`."),
        (["--start", "ONE", "--method", "ew"], "The run to start from has `method = gls`. Found `method = ew`."),
    ],
)
def test_a_start_that_does_not_fit_is_one_sentence(
    more: list[str], sentence: str, call: Call, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--csv", table, "--targets", "near,far", "--epochs", 1, "--batch", 16]
    if "ONE" in more:
        assert call("train", *common, "--method", "gls", "--out", tmp_path / "one") == 0
    capsys.readouterr()
    chosen = [str(tmp_path / "one") if word == "ONE" else word for word in more]
    method = [] if "--method" in more else ["--method", "gls"]
    assert call("train", *common, *method, *chosen, "--out", tmp_path / "out") == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
