"""`torchsims reproduce aliccp`: the table of click logs, with every model, and without a download."""

from pathlib import Path

import pytest

from helpers.commands import Call, results
from torchsims.data.clicks import generate_clicks, write_raw
from torchsims.experiments import aliccp
from torchsims.training import complete_config

QUICK = ["--preset", "small", "--epochs", "1", "--batch", "200", "--jobs", "1"]


@pytest.fixture(autouse=True)
def three_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aliccp, "METHODS", ("ew", "stl", "sims"))


@pytest.mark.parametrize(("model", "trained"), [("sharedbottom", []), ("esmm:bottom=16", ["ctr", "ctcvr"])])
def test_the_table_has_every_rate_of_every_method(model: str, trained: list[str], call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("reproduce", "aliccp", "--data", "aliccp:rows=4000", "--model", model, *QUICK, "--out", out) == 0
    found = results(out)
    assert [row["method"].split(", ")[-1] for row in found["rows"]] == ["EW", "EW", "SIMS"]
    assert found["rows"][1]["method"] == "STL, EW"
    assert found["settings"]["tasks"] == trained
    for row in found["rows"]:
        assert {"Delta_b", "ctr auc", "cvr auc", "ctcvr auc"} <= set(row)
        assert 0.3 < row["ctr auc"] < 0.9
        assert row["mean auc"] == pytest.approx(sum(row[f"{task} auc"] for task in trained or ["ctr", "cvr"]) / 2)
    assert "3800 impressions for training, 200 for validation, 2000 for testing" in (out / "report.html").read_text()


def test_the_table_reads_the_files_of_a_folder(call: Call, tmp_path: Path) -> None:
    for name, seed in (("train", 0), ("test", 1)):
        write_raw(tmp_path, name, generate_clicks(3000, seed=seed))
    assert call("reproduce", "aliccp", "--root", tmp_path, *QUICK, "--out", tmp_path / "out") == 0
    assert len(results(tmp_path / "out")["rows"]) == 3
    assert "synthetic" not in (tmp_path / "out" / "report.html").read_text()


def test_without_options_it_is_a_synthetic_log_and_a_shared_bottom() -> None:
    configs = aliccp.comparison(complete_config({"data": "aliccp", "epochs": 2}), 2).configs
    assert {config.data for config in configs} == {"aliccp"}
    assert [config.model for config in configs].count("stl:of=sharedbottom") == 2
    assert {config.model for config in configs} == {"sharedbottom", "stl:of=sharedbottom"}


def test_other_data_is_refused(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("reproduce", "aliccp", "--data", "scenes") == 2
    assert "There is no click log `scenes`. The names are aliccp." in capsys.readouterr().err
