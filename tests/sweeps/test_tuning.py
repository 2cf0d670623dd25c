"""Tuning: Optuna's own study holds as many trials as asked for, whatever fails, is pruned or is killed on the way."""

from dataclasses import replace
from math import inf
from pathlib import Path
from socket import gethostname
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from helpers.commands import Call, results
from helpers.finished_runs import finished_run
from helpers.training_cases import DATA, checkpoint
from torchsims.methods import METHODS, Method
from torchsims.reporting import RunState
from torchsims.spaces import Choice, Range
from torchsims.sweeps import search_space, tune
from torchsims.sweeps._cells import Event, PrunedError
from torchsims.sweeps._studies import Pruning, StudyPlace
from torchsims.sweeps.folders import _check_alike, read_run
from torchsims.sweeps.tuning import _Study, run_score, study_name, with_values
from torchsims.training import Execution, RunConfig, TuningConfig, complete_config, read_config

TASKS = ("seg", "depth", "normals")
QUICK = ["--data", DATA, "--model", "hps:width=8", "--epochs", "1", "--batch", "4"]
ONE = Execution(jobs=1)


def config(method: str = "ew", **changes: Any) -> RunConfig:
    return complete_config({"data": DATA, "model": "hps:width=8", "epochs": 1, "batch": 4, "method": method, **changes})


def stored_trials(out: Path) -> list[FrozenTrial]:
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(out / "study.journal")))
    (summary,) = optuna.get_all_study_summaries(storage)
    return optuna.load_study(study_name=summary.study_name, storage=storage).trials


@pytest.mark.parametrize("name", METHODS.names())
def test_every_value_of_a_search_space_makes_a_method(name: str) -> None:
    space = Method(name).search_space(TASKS)
    ends = {key: (s.low, s.high) if isinstance(s, Range) else (s.values[0], s.values[-1]) for key, s in space.items()}
    for end in (0, 1):
        changed = with_values(RunConfig(method=name), {f"method.{key}": values[end] for key, values in ends.items()})
        Method(changed.method).check(TASKS)
        assert set(Method(changed.method).search_space(TASKS)) == set()


def test_what_is_given_is_not_searched() -> None:
    assert set(search_space(config("sims:tau=1:ratio=2"), ["method"])) == {"method.augment"}
    weights = search_space(config("fixed:seg=1"), ["method"])
    assert set(weights) == {"method.depth", "method.normals"}
    free = search_space(config("fixed"), ["method"])
    assert free["method.seg"] == Choice((1.0,))  # a common factor is a learning rate
    assert isinstance(free["method.depth"], Range)
    assert set(search_space(config("pbi"), ["method"])) == {"method.theta"}
    with pytest.raises(ValueError, match="leave nothing to tune"):
        search_space(config("ew"), ["method"])


def test_the_study_is_optunas_and_its_best_trial_is_the_result(tmp_path: Path) -> None:
    tuned = tune(config("logmerit"), TuningConfig(trials=3), tmp_path, ONE)
    trials = stored_trials(tmp_path)
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 3
    best = min(trials, key=lambda trial: trial.value or inf)
    assert tuned.score == best.value
    assert tuned.config.lr == best.user_attrs["values"]["lr"] == pytest.approx(best.params["lr"], rel=0.01)
    assert tuned.config.tag == "tuned"
    runs = [read_run(folder) for folder in (tmp_path / "trials").iterdir()]
    assert sorted(run_score(run) for run in runs if run) == sorted(trial.value or inf for trial in trials)


def test_a_study_goes_on_where_it_was_and_trains_nothing_twice(tmp_path: Path) -> None:
    tune(config(), TuningConfig(trials=1, search=("lr",)), tmp_path, ONE)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("checkpoint.pt")}
    tuned = tune(config(), TuningConfig(trials=2, search=("lr",)), tmp_path, ONE)
    assert len(tuned.rows) == 2
    assert len(list(tmp_path.rglob("checkpoint.pt"))) == 2
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())


def test_a_trial_whose_process_was_killed_is_done_and_counts_once(tmp_path: Path) -> None:
    tuning = TuningConfig(trials=2, search=("lr",))
    study = StudyPlace(str(tmp_path / "study.journal"), study_name(config(), tuning)).open("none")
    lost, unknown = study.ask(), study.ask()
    lost.suggest_float("lr", 1e-4, 1e-2, log=True)
    lost.set_user_attr("values", {"lr": float(f"{lost.params['lr']:.3g}")})
    for trial in (lost, unknown):
        trial.set_user_attr("owner", f"{gethostname()}:{2**22 + 1}")  # no process has this number
    tuned = tune(config(), tuning, tmp_path, ONE)
    assert [row["trial"] for row in tuned.rows] == [0, 1]
    assert lost.user_attrs["values"]["lr"] == tuned.rows[0]["lr"]


def test_a_trial_that_was_stopped_is_neither_failed_nor_finished(tmp_path: Path) -> None:
    study = _Study(config(), TuningConfig(trials=1, search=("lr",)), tmp_path, print)
    cell = next(study.trials())
    cell.handle(Event(RunState.STOPPED))
    assert [trial.state for trial in stored_trials(tmp_path)] == [TrialState.RUNNING]


def test_trials_that_fail_use_the_budget_and_say_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"No trial of ew was finished. .*loss of task"):
        tune(config(lr=1e30, epochs=2), TuningConfig(trials=2, search=("lr",)), tmp_path, ONE)
    assert [trial.value for trial in stored_trials(tmp_path)] == [inf, inf]


@pytest.mark.parametrize(("error", "ends"), [(0.9, True), (0.1, False)])
def test_a_trial_that_others_are_ahead_of_is_pruned(tmp_path: Path, error: float, ends: bool) -> None:
    place = StudyPlace(str(tmp_path / "study.journal"), "study")
    study = place.open("median")
    for _ in range(6):
        study.add_trial(optuna.create_trial(value=-1.0, intermediate_values={1: -1.0}))  # ln(0.37)
    pruning = Pruning(place, "median", study.ask().number, {"depth": {"abs_err": False}}, "mean")
    if ends:
        with pytest.raises(PrunedError):
            pruning.on_epoch(1, {"depth": {"abs_err": error}})
    else:
        pruning.on_epoch(1, {"depth": {"abs_err": error}})


def test_a_hopeless_run_is_pruned_saved_and_counted(tmp_path: Path) -> None:
    hopeless, tuning = config(epochs=3), TuningConfig(trials=7, search=("lr",), pruner="median")
    study = StudyPlace(str(tmp_path / "study.journal"), study_name(hopeless, tuning)).open("median")
    for _ in range(5):  # that no run here comes near to
        reported = dict.fromkeys(range(30), -20.0)
        study.add_trial(
            optuna.create_trial(value=-20.0, intermediate_values=reported, user_attrs={"values": {"lr": 1.0}})
        )
    for _ in range(2):  # the second time nothing is left to do
        tuned = tune(hopeless, tuning, tmp_path, ONE)
        assert [row["state"] for row in tuned.rows] == ["complete"] * 5 + ["pruned"] * 2
        folders = list((tmp_path / "trials").iterdir())
        assert [checkpoint(folder)["epoch"] for folder in folders] == [1, 1]
        histories = [checkpoint(folder)["trainer"]["history"] for folder in folders]
        assert [len(history["losses"]["depth"]) for history in histories] == [1, 1]


def test_the_command_leaves_a_configuration_that_train_takes(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned"
    assert call("tune", *QUICK, "--method", "sims", "--trials", "2", "--jobs", "1", "--out", out) == 0
    assert {"results.json", "table.md", "report.html", "trials.png", "best.toml"} <= {p.name for p in out.iterdir()}
    found = results(out)
    best = min(found["rows"], key=lambda row: row["score"])
    stored = read_config(out / "best.toml")
    assert (stored["lr"], stored["tag"]) == (best["lr"], "")
    assert f"tau={best['method.tau']:g}" in stored["method"]
    assert call("tune", *QUICK, "--method", "sims", "--trials", "2", "--jobs", "1", "--out", out) == 2
    assert "new or empty folder" in capsys.readouterr().err


def test_a_comparison_shows_default_and_tuned_side_by_side(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "compared"
    words = ["compare", *QUICK, "--methods", "ew,logmerit", "--tune", "1", "--jobs", "1", "--out", out]
    assert call(*words) == 0
    found = results(out)
    assert [row["method"] for row in found["rows"]] == ["EW", "LogMerit", "EW, tuned", "LogMerit, tuned"]
    assert [row["trials"] for row in found["details"]["Tuned"]] == [1, 1]
    assert any("1 trials of 1 epochs" in note for note in found["notes"])
    before = {path: path.stat().st_mtime_ns for path in out.rglob("checkpoint.pt")}
    assert call(*words, "--resume") == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("checkpoint.pt")} == before


def test_fixed_weights_are_one_by_default_and_compared_with_tuned_ones(call: Call, tmp_path: Path) -> None:
    words = ["compare", *QUICK, "--methods", "fixed", "--tune", "1", "--jobs", "1", "--out", tmp_path / "compared"]
    assert call(*words) == 0
    by_hand = ["train", *QUICK, "--method", "fixed:seg=1:depth=1:normals=1", "--out", tmp_path / "by_hand"]
    assert call(*by_hand) == 0
    default, tuned = results(tmp_path / "compared")["rows"]
    [expected] = results(tmp_path / "by_hand")["rows"]
    assert default["depth abs_err"] == expected["depth abs_err"]
    assert tuned["method"].endswith("tuned")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--search", "rate"], "There is no part to search `rate`"),
        (["--sampler", "tpee"], "There is no sampler `tpee`. Did you mean `tpe`?"),
        (["--pruner", "men"], "There is no pruner `men`"),
        (["--pruner", "median", "--processes", "2"], "Trials of several processes each cannot be pruned"),
        (["--search", "method"], "leave nothing to tune"),
        (["--data", f"{DATA}:validation=0"], "There is no option"),
        (["--storage", "nosuch://x"], "cannot be opened"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("tune", *QUICK, "--method", "ew", *words, "--out", tmp_path / "tuned") == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error


def test_tuned_runs_may_differ_in_their_learning_rate_and_others_may_not() -> None:
    run = finished_run("EW", 0, pictures=False)
    tuned = replace(run, label="EW, tuned", config=replace(run.config, lr=0.5, tag="tuned"))
    _check_alike([run, tuned])
    with pytest.raises(ValueError, match="should have the same `lr`"):
        _check_alike([run, replace(run, label="GLS", config=replace(run.config, lr=0.5))])
    other = replace(tuned, config=replace(tuned.config, lr=0.1, seed=1))
    with pytest.raises(ValueError, match="All runs called EW, tuned should have the same lr"):
        _check_alike([run, tuned, other])


def test_a_study_in_two_parts_tries_what_a_whole_one_tries(tmp_path: Path) -> None:
    for trials in (1, 2):
        parts = tune(config(), TuningConfig(trials=trials, search=("lr",)), tmp_path / "parts", ONE)
    whole = tune(config(), TuningConfig(trials=2, search=("lr",)), tmp_path / "whole", ONE)
    assert [row["lr"] for row in parts.rows] == [row["lr"] for row in whole.rows]
