"""A small temperature starves a task, the method says so, and augmentation cures it; defaults starve none."""

import html
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from torchsims import cli
from torchsims._starvation import StarvationMonitor, StarvationWarning
from torchsims.sklearn import MultiTaskEstimator
from torchsims.sweeps.running import run_all
from torchsims.training import Execution, RunConfig, resolve, train

Array = npt.NDArray[np.float64]


def easy_and_hard() -> tuple[Array, Array]:
    """Three targets that can be learned exactly, and three that are mostly noise.

    On noise no challenger gets ahead, so that a small temperature looks at nothing else.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 20))
    base, other = (x @ rng.normal(size=20) / np.sqrt(20) for _ in range(2))
    easy = np.stack([base + 0.05 * np.tanh(x[:, 0]), base + 0.05 * x[:, 1], other], axis=1)
    hard = 0.3 * base[:, None] + rng.normal(size=(2000, 3))
    return x, np.concatenate([easy, hard], axis=1) * [1e3, 1.0, 1e-3, 1.0, 10.0, 1e-2]


def fit(method: str) -> tuple[MultiTaskEstimator, float]:
    """Return the estimator, and the R2 of its worst target out of those that can be learned, on the training rows."""
    x, y = easy_and_hard()
    estimator = MultiTaskEstimator(method, hidden=(32,), epochs=12, batch_size=64, learning_rate=3e-3, random_state=0)
    estimator.fit(x, y)
    found = estimator.predict(x)[:, :3]
    return estimator, float((1 - ((y[:, :3] - found) ** 2).mean(0) / y[:, :3].var(0)).min())


def write_table(path: Path) -> None:
    x, y = easy_and_hard()
    names = [*(f"x{i}" for i in range(20)), *"abcdef"]
    lines = [",".join(map(repr, row)) for row in np.concatenate([x, y], axis=1).tolist()]
    path.write_text("\n".join([",".join(names), *lines]) + "\n")


@pytest.mark.parametrize("method", ["sims:tau=0.05:ratio=2", "sims:tau=0.05:ratio=5"])
def test_a_small_temperature_starves_and_augmentation_cures(method: str) -> None:
    with pytest.warns(StarvationWarning, match=r"Task `\d` is starved: .* Give the method `augment`"):
        starved, worst = fit(method)
    with warnings.catch_warnings(action="error"):
        cured, better = fit(f"{method}:augment=0.1")
    assert sorted(starved.starved_) == ["0", "1", "2"]
    assert cured.starved_ == []
    assert worst < 0.5 < 0.98 < better


def test_training_says_so_too_also_after_a_stop(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv")
    settings = RunConfig(
        data="table",
        root=f"{tmp_path}/t.csv",
        tasks=tuple("abcdef"),
        method="sims:tau=0.05:ratio=5",
        model="mlp:hidden=32:layers=1",
        epochs=10,
        batch=64,
        lr=3e-3,
    )
    with pytest.warns(StarvationWarning, match=r"Task `[abc]` is starved"):
        run = train(settings, tmp_path / "run")
    assert sorted(run.starved) == ["a", "b", "c"]
    again = train(settings, tmp_path / "run")  # finished: nothing is trained, and nothing forgotten
    assert again.starved == run.starved
    preferred = train(replace(settings, prefer={"d": 50.0, "e": 50.0}, epochs=3), tmp_path / "preferred")
    assert preferred.starved == ()  # little weight is what the others were asked to have


STARVING = "sims:tau=0.05:ratio=5"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_table(tmp_path / "t.csv")
    return tmp_path / "t.csv"


def call(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: object) -> None:
    """Run a command in this process, in which a warning that nobody takes care of is an error."""
    data = ["--data", "table", "--targets", "a,b,c,d,e,f"]
    options = [*data, "--model", "mlp:hidden=32:layers=1", "--epochs", 10, "--batch", 64, "--lr", 3e-3]
    monkeypatch.setattr(sys, "argv", ["torchsims", name, *map(str, [*options, *arguments])])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0


def starved_in(folder: Path) -> list[dict[str, Any]]:
    """Return what the results say of starved tasks; the page names them too."""
    starved: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["starved"]
    page = html.unescape((folder / "report.html").read_text())
    assert all(task in page and "almost no weight" in page for each in starved for task in each["tasks"])
    return starved


def test_a_run_says_at_once_and_on_its_page_what_it_starved(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, "train", "--csv", table, "--method", STARVING, "--out", tmp_path / "run")
    lines = capsys.readouterr().err.splitlines()
    warned = [line for line in lines if " is starved: " in line]
    assert sorted(line.split("`")[1] for line in warned) == ["a", "b", "c"]
    assert all(line.startswith("torchsims: Task `") and "Give the method `augment`" in line for line in warned)
    assert "100 %" in lines[-1]  # they came before the end
    run = json.loads((tmp_path / "run" / "results.json").read_text())["run"]
    assert sorted(run["starved"]) == ["a", "b", "c"]
    (starved,) = starved_in(tmp_path / "run")
    assert (starved["seed"], starved["tasks"]) == (0, run["starved"])


def test_a_comparison_names_who_starved_what_and_the_cure_works(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    methods, out = f"{STARVING},{STARVING}:augment=0.1", tmp_path / "out"
    call(monkeypatch, "compare", "--csv", table, "--methods", methods, "--jobs", 1, "--out", out)
    (found,), said = starved_in(out), capsys.readouterr().err
    assert "tau 0.05" in found["label"]
    assert found["seed"] == 0
    (line,) = [line for line in said.splitlines() if "almost no weight" in line]
    assert line.startswith("torchsims: ")
    assert found["label"] in line
    assert "augment=0.1" in line
    starved, cured = json.loads((out / "results.json").read_text())["rows"]
    assert min(starved[f"{task} r2"] for task in "abc") < 0.6 < 0.9 < min(cured[f"{task} r2"] for task in "abc")
    assert cured["mean r2"] > starved["mean r2"]


def test_processes_of_their_own_say_so_too(table: Path, tmp_path: Path) -> None:
    base = RunConfig(
        "table",
        STARVING,
        "mlp:hidden=32:layers=1",
        tasks=tuple("abcdef"),
        root=str(table),
        epochs=8,
        batch=64,
        lr=3e-3,
    )
    said: list[str] = []
    runs = [resolve(base), resolve(replace(base, seed=1))]
    run_all(runs, tmp_path / "out", Execution(jobs=2), lambda status: None, said.append)
    for seed in (0, 1):
        own = [sentence for sentence in said if f", seed {seed}: Task `" in sentence]
        assert {sentence.split("`")[1] for sentence in own} == {"a", "b", "c"}


def test_the_defaults_starve_no_task() -> None:
    with warnings.catch_warnings(action="error"):
        estimator, worst = fit("sims")
    assert estimator.starved_ == []
    assert worst > 0.98


def see(starved: StarvationMonitor, weight: float, ahead: float, steps: int) -> list[str]:
    new = []
    for _ in range(steps):
        new += starved.update({"a": 1 - weight, "b": weight}, {"a": 1.0, "b": ahead}, {"a": 1.0, "b": 1.0})
    return new


def test_a_task_is_named_once_and_not_at_once() -> None:
    starved = StarvationMonitor()
    assert see(starved, 1e-4, 10.0, 50) == []
    assert see(starved, 1e-4, 10.0, 500) == ["b"]
    assert see(starved, 1e-4, 10.0, 500) == []


@pytest.mark.parametrize(("weight", "ahead"), [(0.2, 10.0), (1e-4, 1.0), (1e-4, 0.1)])
def test_neither_little_weight_alone_nor_a_lead_alone_is_starvation(weight: float, ahead: float) -> None:
    assert see(StarvationMonitor(), weight, ahead, 1000) == []


def test_a_spell_is_not_starvation() -> None:
    starved = StarvationMonitor()
    assert see(starved, 0.5, 1.0, 500) == []
    assert see(starved, 1e-4, 10.0, 50) == []
    assert see(starved, 0.5, 1.0, 500) == []


def test_steps_without_a_label_say_nothing() -> None:
    starved = StarvationMonitor()
    for _ in range(500):
        assert starved.update({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": np.nan}, {"a": 1.0, "b": np.nan}) == []
