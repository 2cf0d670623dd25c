"""A monitor of the gradients sees what is there, and a run is the same with and without it, bit for bit."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from helpers.ranks import run_ranks
from helpers.small_runs import TASKS, batch, build, differences, network, snapshot, task_losses
from helpers.support import flat
from helpers.training_cases import Interrupt, assert_same_run, assert_same_tensors, checkpoint, small
from torchsims import Aggregated
from torchsims.aggregations import DBMTL
from torchsims.diagnosis import GradientMonitor, GradientValues
from torchsims.sweeps import train_and_report
from torchsims.training import (
    Callback,
    Execution,
    History,
    RunConfig,
    StepValues,
    StoppedError,
    Trainer,
    resolve,
    train,
)
from torchsims.training.diagnosing import diagnose_training


class Collect(Callback):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.values: dict[int, StepValues] = {}
        self.warnings: list[str] = []

    def on_step(self, step: int, values: StepValues) -> None:
        self.values[step] = values

    def on_warning(self, sentence: str) -> None:
        self.warnings.append(sentence)


def noisy_losses(model: nn.Module, data: Any) -> dict[str, torch.Tensor]:
    """Return losses that depend on every global generator, beside dropout and batch statistics."""
    noise = 1 + 0.1 * (random.random() + np.random.random() + torch.rand(()).item())
    return {task: noise * loss for task, loss in task_losses(model, data).items()}


def take_steps(name: str, monitor_every: int, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
    model = network()
    method: Any = Aggregated(model, DBMTL(), outer=torch.optim.Adam) if name == "DBMTL" else build(name, model)
    trainer = Trainer(
        method, noisy_losses, steps=6, warmup=0.1, clip=1.0, callbacks=callbacks, monitor_every=monitor_every
    )
    random.seed(0)
    np.random.seed(0)
    for step in range(6):
        trainer.step(batch(2 * step), batch(2 * step + 1))
        if step % 3 == 2:
            trainer.end_epoch({})
    return snapshot(method, losses=trainer.history.losses, host=[random.random(), np.random.random()])


@pytest.mark.parametrize("name", ["SIMS", "FOOPS", "EW", "UW", "FAMO", "LogMerit", "DBMTL"])
def test_no_bit_of_a_training_depends_on_the_monitor(name: str) -> None:
    seen = Collect()
    assert differences(take_steps(name, 0), take_steps(name, 2, [seen])) == []
    assert [step for step, values in seen.values.items() if values.gradients is not None] == [0, 2, 4]


def test_the_monitor_sees_the_gradients_of_autograd() -> None:
    model = network().eval()
    found = GradientMonitor(model)(task_losses, batch(0))
    shared = [p for name, p in model.named_parameters() if not name.startswith("heads")]
    losses = task_losses(model, batch(0))
    rows = [flat(torch.autograd.grad(losses[task], shared, retain_graph=True)) for task in TASKS]
    lengths = [row.norm().item() for row in rows]
    assert list(found.norms.values()) == pytest.approx(lengths)
    assert list(found.shares.values()) == pytest.approx([length / sum(lengths) for length in lengths])
    assert found.cosines["metres"]["pixels"] == pytest.approx(torch.cosine_similarity(rows[0], rows[1], dim=0).item())


def test_a_run_and_its_folder(tmp_path: Path) -> None:
    plain = train(small(), tmp_path / "plain")
    seen, execution = Collect(), Execution(monitor=3)
    run = train_and_report(resolve(small()), tmp_path / "seen", callbacks=[seen], execution=execution, draw=True)
    assert run.metrics == plain.metrics
    assert run.history.losses == plain.history.losses
    for part in ("model", "trainer"):
        assert_same_tensors(checkpoint(tmp_path / "plain")[part], checkpoint(tmp_path / "seen")[part])
    measured = {step: values.gradients for step, values in seen.values.items() if values.gradients is not None}
    assert list(measured) == [0, 3, 6]  # two in the first epoch, one in the second
    for task in ("seg", "depth", "normals"):
        first, second = run.history.shares[task]
        assert first == pytest.approx((measured[0].shares[task] + measured[3].shares[task]) / 2)
        assert second == measured[6].shares[task]
    assert run.history.cosines["depth"]["seg"][1] == measured[6].cosines["depth"]["seg"]
    events = EventAccumulator(str(tmp_path / "seen" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("gradients/cosines/depth/seg")] == [0, 3, 6]
    for name, values in (("shares", measured[6].shares), ("norms", measured[6].norms)):
        assert events.Scalars(f"gradients/{name}/depth")[-1].value == pytest.approx(values["depth"])
    files = {path.name for path in (tmp_path / "seen").iterdir()}
    assert {"gradient_shares.png", "cosines.png"} <= files
    page = (tmp_path / "seen" / "report.html").read_text()
    assert "Mean share of each task in the lengths of all gradients" in page
    assert History.from_dict(run.history.to_dict()).cosines == run.history.cosines


def test_a_run_that_stopped_measures_on(tmp_path: Path) -> None:
    execution = Execution(monitor=2)
    whole = train(small(method="ew"), tmp_path / "whole", execution=execution)
    with pytest.raises(StoppedError):
        train(small(method="ew"), tmp_path / "parts", callbacks=[Interrupt(2)], execution=execution)
    assert_same_run(whole, train(small(method="ew"), tmp_path / "parts", execution=execution))


def test_a_monitor_that_fails_does_not_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Any, *arguments: Any, **options: Any) -> GradientValues:
        raise RuntimeError("no memory is left")

    monkeypatch.setattr(GradientMonitor, "__call__", fails)
    seen = Collect()
    run = train(small(method="ew", epochs=1), tmp_path, callbacks=[seen], execution=Execution(monitor=2))
    assert seen.warnings[0] == "The gradients before step 1 could not be measured. no memory is left"
    assert run.history.shares == {}


def test_curves_have_a_number_per_epoch() -> None:
    history, values = History(), GradientValues({"a": 1, "b": 1}, {"a": 0.5, "b": 0.5}, {"a": {"b": 0.25}})
    for gradients in (None, values, None):
        history.record({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0}, None, gradients)
        history.end_epoch({})
    np.testing.assert_equal(history.shares["a"], [np.nan, 0.5, np.nan])
    np.testing.assert_equal(history.cosines["a"]["b"], [np.nan, 0.25, np.nan])
    again = History.from_dict(history.to_dict())
    np.testing.assert_equal(again.to_dict(), history.to_dict())
    older = {name: curves for name, curves in history.to_dict().items() if name not in ("shares", "cosines")}
    assert History.from_dict(older).shares == {}
    with pytest.raises(ValueError, match="one number per epoch"):
        History.from_dict(history.to_dict() | {"shares": {"a": [0.5]}})


def on_rank(rank: int, folder: str, config: RunConfig) -> tuple[Any, Any]:
    diagnosis = diagnose_training(resolve(config), batches=2)
    run = train(config, Path(folder), execution=Execution(monitor=2))
    return diagnosis, run.history


def test_two_processes_are_one(tmp_path: Path) -> None:
    config = small(method="ew", dtype="float64", epochs=1, lr=1e-4, micro_batches=2)
    diagnosis, history = on_rank(0, str(tmp_path / "one"), small(method="ew", dtype="float64", epochs=1, lr=1e-4))
    for found, curves in run_ranks({"both": (on_rank, (str(tmp_path / "two"), config))})["both"]:
        for task in history.shares:
            np.testing.assert_allclose(curves.shares[task], history.shares[task], rtol=1e-6)
            assert found.gradient[task] == pytest.approx(diagnosis.gradient[task], rel=1e-6)
            assert found.missing[task] == pytest.approx(diagnosis.missing[task])
        assert found.outputs["depth"].target_high == diagnosis.outputs["depth"].target_high
        np.testing.assert_allclose(curves.cosines["depth"]["seg"], history.cosines["depth"]["seg"], atol=1e-6)
