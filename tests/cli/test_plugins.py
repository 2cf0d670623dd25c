"""A method, a data set and a model from outside the package: by entry point, by path, and as objects."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.commands import results
from helpers.training_cases import assert_same_tensors, checkpoint

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
BY_NAME = ("waves", "rootmean:power=0.25", "tiny:width=8")
BY_PATH = ("torchsims_example:Waves", "torchsims_example:RootMean:power=0.25", "torchsims_example:TinyNet:width=8")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of a new environment in which the plug-in is installed."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False)
    made = folder / "bin" / "python"
    purelib = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    (Path(purelib) / "outside.pth").write_text("\n".join(path for path in sys.path if path))
    copy = shutil.copytree(PLUGIN, folder.parent / "plugin")  # building leaves files beside the source
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", str(copy)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(made), *install], check=True, timeout=200)
    return str(made)


def torchsims(python: str, *arguments: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({} if path is None else {"PYTHONPATH": os.pathsep.join([str(path), *sys.path])})
    command = [python, "-m", "torchsims", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)


def go_through_everything(python: str, names: tuple[str, str, str], tmp_path: Path, path: Path | None = None) -> None:
    """Train, resume, compare, predict and report with a data set, a method and a model."""
    data, method, model = names
    again = ["--data", data, "--method", method, "--model", model]

    def run(*arguments: object) -> str:
        done = torchsims(python, *arguments, path=path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("train", *again, "--out", tmp_path / "run")
    assert results(tmp_path / "run")["rows"][0]["method"].endswith("RootMean, power 0.25")
    run("train", *again, "--epochs", "4", "--out", tmp_path / "whole")
    before = checkpoint(tmp_path / "run")
    run("train", "--resume", *again, "--out", tmp_path / "run")
    assert_same_tensors(before, checkpoint(tmp_path / "run"))
    options = ["--data", data, "--model", model, "--methods", f"ew,{method}", "--seeds", "2", "--jobs", "2"]
    run("compare", *options, "--out", tmp_path / "compared")
    rows = results(tmp_path / "compared")["rows"]
    assert [row["method"].removeprefix("TinyNet, ").split(",")[0] for row in rows] == ["EW", "RootMean"]
    assert all(row["seeds"] == 2 for row in rows)
    np.savez(tmp_path / "new.npz", x=np.zeros((3, 4), dtype=np.float32))
    trusted = ["--data", data.partition(":power")[0], "--model", model.partition(":width")[0]] if path else []
    run("predict", tmp_path / "run", tmp_path / "new.npz", *trusted, "--out", tmp_path / "predicted")
    (found,) = [p for p in (tmp_path / "predicted").iterdir() if p.suffix == ".npz"]
    with np.load(found) as arrays:
        assert {name: arrays[name].shape[0] for name in arrays.files} == {"sum": 3, "wave": 3}
    run("report", tmp_path / "run", "--out", tmp_path / "page")


def test_an_installed_plugin_is_found_by_name(python: str, tmp_path: Path) -> None:
    go_through_everything(python, BY_NAME, tmp_path)
    listed = torchsims(python, "methods").stdout
    assert "| rootmean | loss-level | 1 + 1 | power=0.5" in listed


def test_any_importable_class_is_found_by_path(tmp_path: Path) -> None:
    go_through_everything(sys.executable, BY_PATH, tmp_path, PLUGIN)


def test_a_checkpoint_imports_no_class_that_nobody_named(tmp_path: Path) -> None:
    data, method, model = BY_PATH
    options = ["--data", data, "--method", method, "--model", model, "--out", tmp_path / "run"]
    assert torchsims(sys.executable, "train", *options, path=PLUGIN).returncode == 0
    np.savez(tmp_path / "new.npz", x=np.zeros((3, 4), dtype=np.float32))
    for arguments in (
        ["train", "--resume", "--out", tmp_path / "run"],
        ["train", "--resume", "--data", data, "--model", model, "--out", tmp_path / "run"],
        ["predict", tmp_path / "run", tmp_path / "new.npz", "--out", tmp_path / "predicted"],
        ["export", tmp_path / "run", "--out", tmp_path / "exported"],
    ):
        done = torchsims(sys.executable, *arguments, path=PLUGIN)
        assert done.returncode == 2, arguments
        assert "which no installed package registers. To import it, name it again" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    # The page of a finished run needs none of them.
    assert torchsims(sys.executable, "report", tmp_path / "run", "--out", tmp_path / "page").returncode == 0


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
def test_a_class_that_does_not_fit_is_one_sentence(option: str, value: str, sentence: str, tmp_path: Path) -> None:
    names = dict(zip(("--data", "--method", "--model"), BY_PATH, strict=True)) | {option: value}
    options = [word for pair in names.items() for word in pair]
    done = torchsims(sys.executable, "train", *options, "--out", tmp_path / "run", path=PLUGIN)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_objects_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
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
