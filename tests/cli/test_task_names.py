"""Any text is the name of a task: through training, resuming, comparing, reports, predictions and the estimator."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import torchsims
from helpers.commands import Call, results
from torchsims.sklearn import MultiTaskEstimator
from torchsims.training import RunConfig
from torchsims.training.config import quote_name

NAMES = (
    "mg/dL",
    "$x_{$ %s %d % {name} \\0",
    "two\nlines",
    'a "quote", it\'s a `tick`',
    "<b>Größe 体重</b> \N{GRINNING FACE}",
    "--out",
    " ",
    ".",
    "..",
    "a=b",
    "a:b=1",
    "mean",
    "long " * 60 + "name",
)
SMALL = ["--model", "mlp:hidden=4", "--epochs", "2", "--batch", "32"]


@pytest.fixture(autouse=True)
def _blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save time: figures with such names are drawn in the tests of reports."""
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **options: save(Figure((1, 1)), *args, **options))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "table.csv"
    rng = np.random.default_rng(0)
    values = rng.normal(size=(80, 2 + len(NAMES)))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "feature/of $x_{$\n<b>", *NAMES])
        writer.writerows(values.tolist())
    return path


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def words(names: Sequence[str] = NAMES) -> list[str]:
    return ["--targets", ",".join(map(quote_name, names)), "--rescale", f"{quote_name('a=b')}=4"]


def test_a_run_is_stopped_resumed_and_reported(
    table: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("torchsims.training.loop._Session.result", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call("train", "--csv", table, *words(), *SMALL, "--out", out)
    assert call("train", "--resume", "--out", out) == 0
    (row,) = results(out)["rows"]
    for name in NAMES:
        assert np.isfinite(row[f"{name} r2"]), name
    config = RunConfig.from_dict({k: v for k, v in results(out)["settings"].items() if k in RunConfig.__annotations__})
    assert config.tasks == NAMES
    events = EventAccumulator(str(out / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) >= {f"losses/{name}" for name in NAMES}
    assert call("report", out, "--out", tmp_path / "page") == 0
    predictor = torchsims.load(out)
    assert predictor.tasks == NAMES
    assert call("predict", out, table, "--out", tmp_path / "found") == 0
    with (tmp_path / "found" / "table_predictions.csv").open(newline="", encoding="utf-8") as file:
        assert tuple(next(csv.reader(file))) == NAMES


def test_a_comparison_has_a_column_per_name(table: Path, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    methods = f"ew,fixed:{':'.join(f'{quoted(name)}=1' for name in NAMES)}"
    given = ["--csv", table, *words(), *SMALL, "--epochs", "1", "--jobs", "1", "--methods", methods]
    assert call("compare", *given, "--out", out) == 0
    for row in results(out)["rows"]:
        assert {f"{name} mae" for name in NAMES} <= row.keys()
    assert call("compare", *given, "--resume", "--out", out) == 0


def test_an_error_about_them_is_one_line(
    table: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--csv", table, *words(NAMES[:4]), *SMALL, "--out", tmp_path / "out"]
    assert call("train", *given) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert "no task `a=b`" in error


def test_the_estimator_takes_frames_with_them(table: Path) -> None:
    frame = pd.read_csv(table)
    estimator = MultiTaskEstimator(hidden=(4,), epochs=1, random_state=0)
    estimator.fit(frame.iloc[:, :2], frame.iloc[:, 2:])
    assert [target.name for target in estimator.targets_] == list(NAMES)
    assert estimator.predict(frame.iloc[:, :2]).shape == (80, len(NAMES))
