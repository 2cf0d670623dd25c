"""A method, a data set and a model from outside the package: by entry point, by path, and as objects."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import Call, results
from helpers.training_cases import assert_same_tensors, checkpoint

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
MODULE = "torchsims_example"
BY_NAME = ("waves", "rootmean:power=0.25", "tiny:width=8")
BY_PATH = (f"{MODULE}:Waves", f"{MODULE}:RootMean:power=0.25", f"{MODULE}:TinyNet:width=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the plug-in is installed."""
    folder = tmp_path_factory.mktemp("installed")
    copy = shutil.copytree(PLUGIN, folder / "plugin")  # building leaves files beside the source
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([sys.executable, "-m", "pip", *install, str(folder / "site"), str(copy)], check=True, timeout=200)
    return folder / "site"


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process find the plug-in as an installed package."""
    monkeypatch.syspath_prepend(folder)
    yield
    sys.modules.pop(MODULE, None)


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process import the module of the plug-in, which is not installed."""
    monkeypatch.syspath_prepend(PLUGIN)
    yield
    sys.modules.pop(MODULE, None)


def go_through_everything(call: Call, names: tuple[str, str, str], tmp_path: Path, *trusted: str) -> None:
    """Train, resume, compare, predict and report with a data set, a method and a model."""
    data, method, model = names
    again = ["--data", data, "--method", method, "--model", model]
    assert call("train", *again, "--out", tmp_path / "run") == 0
    assert results(tmp_path / "run")["rows"][0]["method"].endswith("RootMean, power 0.25")
    assert call("train", *again, "--epochs", "4", "--out", tmp_path / "whole") == 0
    before = checkpoint(tmp_path / "run")
    assert call("train", "--resume", *again, "--out", tmp_path / "run") == 0
    assert_same_tensors(before, checkpoint(tmp_path / "run"))
    options = ["--data", data, "--model", model, "--methods", f"ew,{method}", "--seeds", "2", "--jobs", "2"]
    assert call("compare", *options, "--out", tmp_path / "compared") == 0
    rows = results(tmp_path / "compared")["rows"]
    assert [row["method"].removeprefix("TinyNet, ").split(",")[0] for row in rows] == ["EW", "RootMean"]
    assert all(row["seeds"] == 2 for row in rows)
    np.savez(tmp_path / "new.npz", x=np.zeros((3, 4), dtype=np.float32))
    assert call("predict", tmp_path / "run", tmp_path / "new.npz", *trusted, "--out", tmp_path / "predicted") == 0
    (found,) = [p for p in (tmp_path / "predicted").iterdir() if p.suffix == ".npz"]
    with np.load(found) as arrays:
        assert {name: arrays[name].shape[0] for name in arrays.files} == {"sum": 3, "wave": 3}
    assert call("report", tmp_path / "run", "--out", tmp_path / "page") == 0


@pytest.mark.usefixtures("installed")
def test_an_installed_plugin_is_found_by_name(call: Call, tmp_path: Path) -> None:
    go_through_everything(call, BY_NAME, tmp_path)


def test_a_new_process_lists_an_installed_plugin(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-m", "torchsims", "methods"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
    assert "| rootmean | loss-level | 1 + 1 | power=0.5" in done.stdout


@pytest.mark.usefixtures("importable")
def test_any_importable_class_is_found_by_path(call: Call, tmp_path: Path) -> None:
    go_through_everything(call, BY_PATH, tmp_path, "--data", BY_PATH[0], "--model", f"{MODULE}:TinyNet")


@pytest.mark.usefixtures("importable")
def test_a_checkpoint_imports_no_class_that_nobody_named(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, method, model = BY_PATH
    assert call("train", "--data", data, "--method", method, "--model", model, "--out", tmp_path / "run") == 0
    np.savez(tmp_path / "new.npz", x=np.zeros((3, 4), dtype=np.float32))
    for arguments in (
        ["train", "--resume", "--out", tmp_path / "run"],
        ["train", "--resume", "--data", data, "--model", model, "--out", tmp_path / "run"],
        ["predict", tmp_path / "run", tmp_path / "new.npz", "--out", tmp_path / "predicted"],
        ["export", tmp_path / "run", "--out", tmp_path / "exported"],
    ):
        sys.modules.pop(MODULE, None)
        capsys.readouterr()
        assert call(*arguments) == 2, arguments
        errors = capsys.readouterr().err
        assert "which no installed package registers. To import it, name it again" in errors
        assert len(errors.strip().splitlines()) == 1
        assert MODULE not in sys.modules
    # The page of a finished run needs none of them.
    sys.modules.pop(MODULE, None)
    assert call("report", tmp_path / "run", "--out", tmp_path / "page") == 0
    assert MODULE not in sys.modules


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--method", "torchsims_example:TinyNet", "A method should be a scalarization, an aggregation"),
        ("--data", "torchsims_example:RootMean", "should be a subclass of"),
        ("--model", "torchsims_example:RootMeen", "Found no `RootMeen` in `torchsims_example`"),
        ("--method", "no.such.module:X", "should name a class of a module that can be imported"),
        ("--method", "torchsims_example:RootMean:power=0", "Parameter `power` should be positive"),
        (
            "--method",
            "torchsims_example:RootMean:pwr=1",
            "There is no option of method `torchsims_example:RootMean` `pwr`",
        ),
    ],
)
@pytest.mark.usefixtures("importable")
def test_a_class_that_does_not_fit_is_one_sentence(
    option: str, value: str, sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = dict(zip(("--data", "--method", "--model"), BY_PATH, strict=True)) | {option: value}
    options = [word for pair in names.items() for word in pair]
    assert call("train", *options, "--out", tmp_path / "run") == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.usefixtures("importable")
def test_objects_in_python(tmp_path: Path) -> None:
    from sklearn.base import clone  # type: ignore[import-untyped]
    from torchsims_example import RootMean, TinyNet, Waves

    from torchsims.sklearn import MultiTaskEstimator
    from torchsims.training import RunConfig, train

    class Halves(Waves):
        architectures = (f"{TinyNet.__module__}:{TinyNet.__qualname__}",)

    config: dict[str, Any] = {"epochs": 2, "batch": 16, "lr": 1e-2, "model": "torchsims_example:TinyNet"}
    run = train(RunConfig(**config), tmp_path / "run", workload=Halves(64), method=RootMean(0.25))
    named = train(RunConfig("torchsims_example:Waves:rows=64", BY_PATH[1], **config), tmp_path / "named")
    assert run.metrics == named.metrics
    assert json.dumps(run.config.to_dict())
    again = train(RunConfig(**config), tmp_path / "run", workload=Halves(64), method=RootMean(0.25))
    assert again.metrics == run.metrics
    x = np.random.default_rng(0).normal(size=(64, 3))
    estimator = MultiTaskEstimator(method=RootMean(0.25), hidden=(8,), epochs=2, random_state=0)
    by_name = MultiTaskEstimator(method=BY_PATH[1], hidden=(8,), epochs=2, random_state=0)
    np.testing.assert_array_equal(clone(estimator).fit(x, x[:, :2]).predict(x), by_name.fit(x, x[:, :2]).predict(x))
