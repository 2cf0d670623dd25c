"""Training runs: scale, several processes, what is evaluated and when."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.ranks import run_ranks
from helpers.training_cases import Interrupt, assert_same_run, assert_same_tensors, checkpoint, small, tensors
from torchsims.sweeps import folder_name
from torchsims.training import Metrics, RunConfig, StoppedError, TensorBoard, train
from torchsims.training.batches import training_batches
from torchsims.training.trainer import warmup_then_decay
from torchsims.workloads.scenes import SceneWorkload

# Scale.


@pytest.mark.parametrize("method", ["sims", "sims:evaluation=sequential", "sims:prox=1e-3:augment=0.1"])
def test_a_power_of_two_changes_no_bit(method: str, tmp_path: Path) -> None:
    plain = train(small(method=method), tmp_path / "plain")
    scaled = train(small(method=method, rescale={"depth": 128.0}), tmp_path / "scaled")
    assert_same_run(plain, scaled)
    assert_same_tensors(checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "scaled"))


def test_a_power_of_two_changes_no_bit_of_a_run_with_a_floor_and_a_preference(tmp_path: Path) -> None:
    """Its state holds the first losses, which have units; what it finds has none."""
    config = small(method="sims:floor=0.1", prefer={"depth": 4.0})
    scaled = replace(config, rescale={"depth": 128.0})
    assert_same_run(train(config, tmp_path / "plain"), train(scaled, tmp_path / "scaled"))


def test_the_same_factor_changes_equal_weights(tmp_path: Path) -> None:
    plain = train(small(method="ew"), tmp_path / "plain")
    scaled = train(small(method="ew", rescale={"depth": 128.0}), tmp_path / "scaled")
    assert plain.metrics != scaled.metrics


def test_a_preference_is_in_the_weights_the_label_and_the_name_of_the_folder(tmp_path: Path) -> None:
    runs = {p: train(small(method="sims:tau=0.3", prefer={"depth": p}), tmp_path / f"{p}") for p in (0.25, 4.0)}
    weights = {p: run.history.weights["depth"][-1] for p, run in runs.items()}
    assert weights[4.0] > weights[0.25]
    assert runs[4.0].label == "SIMS, tau 0.3, depth preferred 4"
    assert len({folder_name(run.config) for run in runs.values()}) == 2


# Ranks and micro-batches.


def _on_a_rank(rank: int, folder: str, config: RunConfig) -> tuple[dict[str, Any], Metrics]:
    run = train(config, Path(folder))
    return run.history.to_dict(), run.metrics


def test_two_processes_are_one(tmp_path: Path) -> None:
    config = small(method="sims", dtype="float64", epochs=5)  # 20 steps
    alone = train(config, tmp_path / "alone")
    found = run_ranks({"run": (_on_a_rank, (str(tmp_path / "two"), config))})["run"]
    for history, metrics in found:
        for task, losses in alone.history.losses.items():
            np.testing.assert_allclose(history["losses"][task], losses, rtol=1e-6)
        for task, values in alone.metrics.items():
            assert metrics[task] == pytest.approx(values, rel=1e-6)
    assert found[0] == found[1]


def test_metrics_of_one_model_are_the_same_on_two_processes(tmp_path: Path) -> None:
    config = small(method="ew", epochs=1)
    alone = train(config, tmp_path)
    # Both go on from the finished checkpoint, so that only the evaluation is left.
    for _, metrics in run_ranks({"run": (_on_a_rank, (str(tmp_path), config))})["run"]:
        for task, values in alone.metrics.items():
            assert metrics[task] == pytest.approx(values, rel=1e-12)


def test_micro_batches_are_one_batch(tmp_path: Path) -> None:
    whole = train(small(dtype="float64"), tmp_path / "whole")
    parts = train(small(dtype="float64", micro_batches=4), tmp_path / "parts")
    for task, losses in whole.history.losses.items():
        np.testing.assert_allclose(parts.history.losses[task], losses, rtol=1e-9)


# What a run looks at.


def test_the_test_split_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = SceneWorkload
    split, seen = workload.split, []

    def spy(self: SceneWorkload, name: str) -> Any:
        seen.append(name)
        return split(self, name)

    monkeypatch.setattr(workload, "split", spy)
    train(small(), tmp_path)
    assert [name for name in seen if name != "train"] == ["val", "val", "test", "test"]  # the second time for pictures


def test_seeds_differ_in_the_model_and_in_the_order(tmp_path: Path) -> None:
    train(small(method="ew", epochs=1, lr=1e-12), tmp_path / "0")
    train(small(method="ew", epochs=1, lr=1e-12, seed=1), tmp_path / "1")
    one, other = (tensors(checkpoint(tmp_path / name)["model"]) for name in "01")
    assert not torch.equal(one["/heads.0.out.weight"], other["/heads.0.out.weight"])
    assert not torch.equal(training_batches(16, 4, 0, 0), training_batches(16, 4, 1, 0))


def test_both_copies_follow_the_schedule(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        train(small(method="sims:ratio=5", lr=1e-3), tmp_path, callbacks=[Interrupt(2)])
    method = checkpoint(tmp_path)["trainer"]["method"]
    outer, inner = (method[name]["param_groups"][0]["lr"] for name in ("outer", "inner"))
    assert inner == pytest.approx(5 * outer)
    assert outer == pytest.approx(1e-3 * warmup_then_decay(3, 8, 0.1))


def test_the_event_file_has_raw_losses_weights_and_merit(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = small(method="sims", rescale={"depth": 1024.0})
    with pytest.raises(StoppedError):
        train(config, tmp_path, callbacks=[TensorBoard(tmp_path / "tb"), Interrupt(5)])
    with pytest.raises(StoppedError):
        train(config, tmp_path, callbacks=[TensorBoard(tmp_path / "tb"), Interrupt(6)])
    run = train(config, tmp_path, callbacks=[TensorBoard(tmp_path / "tb")])
    events = EventAccumulator(str(tmp_path / "tb")).Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"losses/depth", "weights/seg", "merit", "lr", "validation/depth/abs_err"} <= scalars
    assert "regularizer" not in scalars  # the model has none
    assert [event.step for event in events.Scalars("validation/depth/abs_err")] == [3, 7]
    steps = [event.step for event in events.Scalars("losses/depth")]
    assert steps == list(range(8))  # none twice, none left out
    last = np.mean([event.value for event in events.Scalars("losses/depth")][4:])
    assert last == pytest.approx(run.history.losses["depth"][-1], rel=1e-5)
