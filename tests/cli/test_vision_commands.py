"""The paper's tables as commands: every preset, on folders in the formats of the real data, with a Sam2 checkpoint."""

import html
import shutil
from math import isfinite
from pathlib import Path

import pytest

from helpers.commands import Call, results
from helpers.small_folders import write_pascal, write_scenes, write_streets
from helpers.small_sam2 import write_video_checkpoint
from torchsims.experiments import methods


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder a data set, by its name, and a checkpoint as the published ones are, ``sam2``."""
    root = tmp_path_factory.mktemp("folders")
    for split in ("train", "val"):
        write_scenes(root / "nyuv2", split, size=3)
        write_streets(root / "cityscapes", split, size=3)
    write_pascal(root / "pascal")
    lists = root / "pascal" / "ImageSets" / "Context"
    shutil.copy(lists / "train.txt", lists / "val.txt")
    write_video_checkpoint(root / "sam2")
    return root


def quick(folders: Path, name: str) -> list[object]:
    """Return options of runs of one step with three images and the small checkpoint."""
    data = "pascal:height=32:width=48" if name == "pascal" else name
    model = f"sam2:encoder={folders / 'sam2'}:rank=2:size=32"
    steps = ("--epochs", 1, "--batch", 3, "--jobs", 1)
    return ["--data", data, "--root", folders / name, "--model", model, *steps]


# The main table.


def assert_preset_on_page(out: Path, preset: str, changed: set[str]) -> None:
    """Check that the page names the preset, and that it and the results list all that was changed and nothing else."""
    page = html.unescape((out / "report.html").read_text())
    assert f"Settings: the preset {preset} with changes." in page
    rows = results(out)["details"]["Changed from the preset"]
    assert {row["setting"] for row in rows} == changed
    assert all(row["here"] in page for row in rows)


def test_the_main_table_of_the_paper(folders: Path, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [*quick(folders, "nyuv2"), "--tasks", "seg,depth", "--preset", "paper", "--out", out]
    assert call("reproduce", "methods", *arguments) == 0
    rows = results(out)["rows"]
    assert len(rows) == len(methods.METHODS) == 26
    assert all(isfinite(row["seg miou"]) and isfinite(row["depth abs_err"]) for row in rows)
    labels = [row["method"] for row in rows]
    assert labels[:2] == ["EW", "STL, EW"]
    assert [model.partition(":")[0] for model in results(out)["settings"]["model"]] == ["sam2", "stl"]
    assert not any("SAM2" in label for label in labels)  # it is the model of the preset
    assert labels[-1] == "SIMS, prox 0, ratio 5, tau 5"
    assert_preset_on_page(out, "paper", {"tasks", "model", "epochs", "batch"})


@pytest.mark.parametrize("weights", ["the hub", "a folder"])
def test_missing_weights_are_one_sentence_before_any_run(
    weights: str,
    folders: Path,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--data", "nyuv2", "--root", folders / "nyuv2", "--preset", "paper", "--out", tmp_path / "out"]
    if weights == "the hub":
        monkeypatch.setattr("transformers.utils.has_file", lambda *_, **__: False)
    else:
        (tmp_path / "empty").mkdir()
        arguments += ["--model", f"sam2:encoder={tmp_path / 'empty'}"]
    assert call("reproduce", "methods", *arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "Option `encoder` should name weights, such as `model.safetensors`." in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "preset", "label", "changed"),
    [
        ("nyuv2", "authors", "SIMS, order alternating, prox 0.001, ratio 5, tau 3", {"model", "epochs", "batch"}),
        ("cityscapes", "paper", "SIMS, prox 0, ratio 5, tau 3", {"model", "epochs", "batch"}),
        ("pascal", "ablation", "SIMS, prox 0, ratio 5, tau 3", {"data", "model", "epochs", "batch"}),
    ],
)
def test_the_main_table_of_other_data_and_presets(
    name: str,
    preset: str,
    label: str,
    changed: set[str],
    folders: Path,
    call: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(methods, "METHODS", ("ew", "stl", "stch:normalize=yes", "sims"))  # the others are as quick
    out = tmp_path / "out"
    assert call("reproduce", "methods", *quick(folders, name), "--preset", preset, "--out", out) == 0
    rows = results(out)["rows"]
    assert [row["method"] for row in rows] == ["EW", "STL, EW", "STCH, mu 3, normalize yes", label]
    assert all(isfinite(row["seg miou"]) for row in rows)
    assert_preset_on_page(out, preset, changed)


def test_an_ablation(folders: Path, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [*quick(folders, "pascal"), "--tasks", "seg,saliency", "--preset", "ablation", "--out", out]
    assert call("reproduce", "lambda", *arguments) == 0
    assert [row["method"] for row in results(out)["rows"]][1:] == [
        f"SIMS, prox {prox}, ratio 5, tau 3" for prox in ("0", "1e-06", "1e-05", "0.0001", "0.001")
    ]
    assert_preset_on_page(out, "ablation", {"data", "tasks", "model", "epochs", "batch"})
    assert (out / "prox.png").exists()
