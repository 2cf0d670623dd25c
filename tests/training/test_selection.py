"""Model selection: the best epoch is reported, both are in the results, and a resumed run selects the same."""

import os
import signal
from contextlib import suppress
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchsims
from helpers.training_cases import assert_same_tensors, checkpoint, small
from torchsims.training import Callback, Run, StepValues, StoppedError, load_model, train
from torchsims.training.selection import validation_score

HIGHER = {"seg": {"miou": True, "pixel_acc": True}, "depth": {"abs_err": False}}


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 0.99), st.floats(1e-6, 1e6))
def test_no_unit_changes_which_epoch_is_better(one: float, other: float, miou: float, unit: float) -> None:
    def score(error: float, scale: float) -> float:
        return validation_score({"seg": {"miou": miou}, "depth": {"abs_err": scale * error}}, HIGHER)

    assert score(one, unit) - score(other, unit) == pytest.approx(score(one, 1.0) - score(other, 1.0), abs=1e-9)


def test_a_diverged_epoch_is_the_worst() -> None:
    assert validation_score({"depth": {"abs_err": nan}}, HIGHER) == inf
    assert validation_score({"depth": {"abs_err": nan}}, HIGHER, "depth abs_err") == inf
    assert validation_score({"depth": {"abs_err": 0.0}}, HIGHER) < validation_score(
        {"depth": {"abs_err": 1e-9}}, HIGHER
    )


class Interrupt(Callback):
    def __init__(self, at: int) -> None:
        self.at = at

    def on_step(self, step: int, values: StepValues) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


# A rate at which some epochs are worse than those before.
WILD = {"method": "ew", "lr": 0.05, "epochs": 5, "warmup": 0.0}


def early_metric(run: Run) -> tuple[str, int]:
    """Return a metric that was best before the last epoch of a run, and that epoch."""
    for task, curves in run.history.validation.items():
        for name, curve in curves.items():
            best = int((np.argmax if run.higher_is_better[task][name] else np.argmin)(curve)) + 1
            if best < len(curve):
                return f"{task} {name}", best
    raise AssertionError("every metric was best at the end: choose another rate for this test")


def test_the_best_epoch_is_reported_and_predicts_and_the_last_one_is_beside_it(tmp_path: Path) -> None:
    last = train(small(**WILD), tmp_path / "last")
    metric, epoch = early_metric(last)
    best = train(small(**WILD, select="best", select_by=metric), tmp_path / "best")
    assert (best.selected, last.selected) == (epoch, 5)
    assert best.last_metrics == last.metrics
    assert best.metrics != last.metrics
    assert last.last_metrics is None
    _, model = load_model(tmp_path / "best")
    saved = checkpoint(tmp_path / "best")
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved["selection"]["model"][name])
    assert any(not torch.equal(saved["model"][name], saved["selection"]["model"][name]) for name in saved["model"])
    torchsims.load(tmp_path / "best")


@pytest.mark.parametrize("at", [5, 9, 14])
def test_a_run_that_stopped_selects_the_same_epoch(at: int, tmp_path: Path) -> None:
    config = small(**WILD, select="best", patience=2)
    whole = train(config, tmp_path / "whole")
    with suppress(StoppedError):  # a run out of patience may end before
        train(config, tmp_path / "parts", callbacks=[Interrupt(at)])
    parts = train(config, tmp_path / "parts")
    assert (parts.selected, parts.metrics, parts.last_metrics) == (whole.selected, whole.metrics, whole.last_metrics)
    assert parts.history.to_dict() == whole.history.to_dict()
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))


def test_patience_ends_a_run(tmp_path: Path) -> None:
    # A rate of nothing: no epoch is better than the first.
    run = train(small(method="ew", lr=1e-30, epochs=9, select="best", patience=2), tmp_path)
    assert run.history.epochs == 3
    assert run.selected == 1
    assert train(small(method="ew", lr=1e-30, epochs=9, select="best", patience=2), tmp_path).selected == 1
