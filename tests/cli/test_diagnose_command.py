"""`torchsims diagnose` on named data, tables and runs."""

import re
from pathlib import Path

import pytest
import torch

from helpers.commands import Call, results
from torchsims.training import complete_config, load_model, resolve
from torchsims.training.batches import training_batches

SCENES = ["--data", "scenes:images=16:resolution=32", "--model", "hps:width=8", "--batch", "4"]


def test_named_data(call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert call("diagnose", *SCENES, "--rescale", "depth=1e6", "--batches", 3, "--out", out) == 0
    printed = capsys.readouterr().out
    found = results(out)
    assert {"command", "settings", "versions", "seconds", "rows", "diagnosis"} <= found.keys()
    assert found["command"].endswith("--rescale depth=1e+06 --batch 4 --batches 3")
    kinds = {finding["kind"]: finding["tasks"] for finding in found["diagnosis"]["findings"]}
    assert kinds["dominates"] == ["depth"]
    assert kinds["dropped"] == ["normals", "seg"]
    assert found["diagnosis"]["batches"] == 3
    page = (out / "report.html").read_text()
    for sentence in found["diagnosis"]["advice"]:
        assert sentence in printed
        assert re.sub(r"`(.*?)`", r"<code>\1</code>", sentence) in page
    assert {path.name for path in out.iterdir()} == {
        *("results.json", "table.md", "report.html", "shares.png", "cosines.png", "cosines_by_layer.png")
    }
    assert "| depth |" in (out / "table.md").read_text()


def test_a_table_with_missing_labels(call: Call, tmp_path: Path) -> None:
    rows = [f"{i % 7},{i % 5},{i % 7 - 3 if i % 4 == 0 else ''},{i % 5}" for i in range(200)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["x,y,rare,common", *rows]) + "\n")
    options = ["--csv", table, "--targets", "rare,common", "--types", "number", "--preset", "small", "--batch", "160"]
    assert call("diagnose", *options, "--out", tmp_path / "out") == 0
    found = results(tmp_path / "out")["diagnosis"]
    assert found["missing"]["rare"] == pytest.approx(0.75, abs=0.05)
    assert found["missing"]["common"] == 0
    assert ["rare"] in [finding["tasks"] for finding in found["findings"] if finding["kind"] == "missing"]


def test_a_run(call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert call("train", *SCENES, "--method", "ew", "--epochs", 2, "--lr", "3e-3", "--out", run) == 0
    assert call("diagnose", run, "--batches", 1, "--out", tmp_path / "trained") == 0
    workload, model = load_model(run)
    data = resolve(complete_config({"data": SCENES[1], "batch": 4})).workload.split("train")
    batch = data.batch(training_batches(16, 4, 0, 0)[0].tolist())  # type: ignore[attr-defined]
    with torch.no_grad():
        losses = workload.losses(workload.predict(model.train(), batch), batch).mean()
    for row in results(tmp_path / "trained")["rows"]:
        assert row["loss"] == pytest.approx(losses[row["task"]].item(), rel=1e-4)
    assert call("diagnose", run, "--micro-batches", 2, "--batches", 1, "--out", tmp_path / "parts") == 0
    one, two = (results(tmp_path / name)["diagnosis"] for name in ("trained", "parts"))
    assert one["gradient"] == pytest.approx(two["gradient"], rel=1e-3)
    capsys.readouterr()
    assert call("diagnose", run, "--model", "hps:width=16", "--out", tmp_path / "other") == 2
    sentence = "The run has `model = hps:width=8`. Found `model = hps:width=16`."
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["no such folder"], "There is no run with a checkpoint in `no such folder`."),
        (["--data", "scene"], "There is no data `scene`. Did you mean `scenes`?"),
        (["--rescale", "dept=3"], "There is no task `dept`. Did you mean `depth`?"),
        (["--batches", "0"], "--batches"),
        (["--csv", "missing.csv", "--targets", "y"], "missing.csv"),
        ([*SCENES, "--batch", "64"], "Parameter `batch` should be at most the number of items, 16."),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("diagnose", *words, "--out", tmp_path / "out") == 2
    errors = capsys.readouterr().err.strip()
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
