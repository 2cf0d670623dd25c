"""MultiMNIST: losses, runs, pages, bad input."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from helpers.commands import Call
from helpers.shared_data import shared
from helpers.small_digits import IMAGES, write_digits
from helpers.training_cases import assert_same_tensors, checkpoint, preset
from torchsims.models import LeNet, SingleTask
from torchsims.training import resolve, train
from torchsims.workloads import load_workload


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_digits(tmp_path / "mnist")


@pytest.mark.parametrize(("name", "kind"), [("lenet", LeNet), ("stl", SingleTask)])
def test_losses_of_either_network_are_means_of_cross_entropy(name: str, kind: type[nn.Module], root: Path) -> None:
    workload = load_workload("multimnist:images=50", root=str(root))
    batch = workload.split("train").batch(range(50))  # type: ignore[attr-defined]
    model = workload.build_model(name)
    assert isinstance(model, kind)
    predictions = workload.predict(model, batch)
    for task, loss in workload.losses(predictions, batch).mean().items():
        torch.testing.assert_close(loss, cross_entropy(predictions[task].double(), batch[task]))


def test_runs_leave_pages_and_a_rescaled_one_the_same_tensors(root: Path, call: Call, tmp_path: Path) -> None:
    quick = ["--data", "multimnist:images=64", "--root", root, "--epochs", 2, "--batch", 16, "--method", "sims"]
    rows = []
    for name, extra in (("plain", []), ("scaled", ["--rescale", "left=128"])):
        assert call("train", *quick, *extra, "--out", tmp_path / name) == 0
        assert (tmp_path / name / "report.html").is_file()
        rows += json.loads((tmp_path / name / "results.json").read_text())["rows"]
    assert_same_tensors(checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "scaled"))
    plain, scaled = ({key: value for key, value in row.items() if key != "method"} for row in rows)
    assert plain == scaled
    assert {"left accuracy", "right accuracy"} <= plain.keys()
    assert call("report", tmp_path / "plain", tmp_path / "scaled", "--out", tmp_path / "page") == 0
    joined = json.loads((tmp_path / "page" / "results.json").read_text())["rows"]
    assert [{key: row[key] for key in row.keys() & rows[0].keys()} for row in joined] == [
        {key: value for key, value in row.items() if key != "seed"} for row in rows
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "MultiMNIST is made of files in a folder: name it with `root`. Found none."),
        (["--root", "mnist"], "Missing: train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte."),
        (["--data", "multimnist:images=0"], "Option `images` should be positive. Found `images=0`."),
        (["--data", "multimnist:pairs_seed=-1"], "Option `pairs_seed` should not be negative."),
        (["--tasks", "left,rigth"], "There is no task `rigth`. Did you mean `right`?"),
        (["--tasks", "left,left"], "Parameter `tasks` should hold distinct names."),
        (["--model", "lennet"], "There is no model `lennet`. Did you mean `lenet`?"),
        (["--model", "lenet:hidden=0"], "Parameter `hidden` should be positive. Found `hidden = 0`."),
        (["--model", "stl:channels=0"], "Parameter `channels` should be positive. Found `channels = 0`."),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str],
    sentence: str,
    call: Call,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(root.parent)
    for path in root.iterdir():
        if path.name != IMAGES:
            path.unlink()
    assert call("train", "--data", "multimnist", *arguments) == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert len(errors.strip().splitlines()) == 1
    assert list(root.parent.iterdir()) == [root]


def test_one_task_alone_is_trained(root: Path, tmp_path: Path) -> None:
    settings = preset("small", data="multimnist:images=32", root=str(root), tasks=("right",), batch=16, method="ew")
    assert list(train(settings, tmp_path / "run").metrics) == ["right"]


def test_real_digits_are_learned(tmp_path: Path) -> None:
    root = str(shared("mnist"))
    changes: dict[str, Any] = {"data": "multimnist:images=2000", "epochs": 1, "batch": 32}
    run = train(preset("small", root=root, method="ew", **changes), tmp_path / "run")
    assert all(metrics["accuracy"] > 0.5 for metrics in run.metrics.values())
    workload = resolve(run.config).workload
    assert [workload.items(split) for split in ("train", "val", "test")] == [2000, 200, 10_000]
