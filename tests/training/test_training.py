"""Training: scale, stopping and going on, several processes, what is looked at and what is refused."""

import os
import random
import signal
import time
import tracemalloc
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import dropout

from helpers.ranks import run_ranks
from helpers.training_cases import assert_same_tensors, checkpoint, small, tensors
from torchsims.methods import Method, names
from torchsims.training import (
    Outcome,
    Settings,
    StoppedError,
    TensorBoard,
    Watch,
    asked_to_stop,
    read_settings,
    train,
)
from torchsims.training._batches import mix, shards, training_batches
from torchsims.training._checkpoints import locked, replace_file
from torchsims.training._evaluation import evaluate
from torchsims.training._rates import rate_factor
from torchsims.workloads import Workload


class Interrupt(Watch):
    """Presses Ctrl-C during a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def step(self, step: int, values: Mapping[str, float]) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def assert_same_outcome(one: Outcome, other: Outcome) -> None:
    assert one.metrics == other.metrics
    np.testing.assert_equal(one.history, other.history)  # unlike ==, it takes NaN for NaN
    assert one.samples.keys() == other.samples.keys()
    for name, array in one.samples.items():
        np.testing.assert_array_equal(array, other.samples[name])


# Scale.


@pytest.mark.parametrize("method", ["sims", "sims:evaluation=sequential", "sims:prox=1e-3:augment=0.1"])
def test_a_power_of_two_changes_no_bit(method: str, tmp_path: Path) -> None:
    plain = train(small(method=method), tmp_path / "plain")
    scaled = train(small(method=method, rescale={"depth": 128.0}), tmp_path / "scaled")
    assert_same_outcome(plain, scaled)
    assert_same_tensors(checkpoint(tmp_path / "plain"), checkpoint(tmp_path / "scaled"))


def test_the_same_factor_changes_equal_weights(tmp_path: Path) -> None:
    plain = train(small(method="ew"), tmp_path / "plain")
    scaled = train(small(method="ew", rescale={"depth": 128.0}), tmp_path / "scaled")
    assert plain.metrics != scaled.metrics


# Stopping and going on.


@pytest.mark.parametrize("method", [*names(), "stch:normalize=yes:warmup_epochs=1", "foops:normalizer=ema"])
def test_a_run_that_stopped_ends_like_one_that_did_not(method: str, tmp_path: Path) -> None:
    settings = small(method=method)
    whole = train(settings, tmp_path / "whole")
    for at in (1, 5):  # in the first epoch and in the second
        with pytest.raises(StoppedError):
            train(settings, tmp_path / "parts", watches=[Interrupt(at)])
        assert checkpoint(tmp_path / "parts")["batch"] == at % 4 + 1
    parts = train(settings, tmp_path / "parts")
    assert_same_outcome(whole, parts)
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))


def test_dropout_goes_on_as_if_nothing_had_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(method="sims")
    workload = type(settings.workload())
    predict = workload.predict

    def with_dropout(self: Any, model: torch.nn.Module, batch: Any) -> Any:
        return {task: dropout(out, 0.2, model.training) for task, out in predict(self, model, batch).items()}

    monkeypatch.setattr(workload, "predict", with_dropout)
    whole = train(settings, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, tmp_path / "parts", watches=[Interrupt(2)])
    torch.manual_seed(99)  # a new process would have another one
    assert_same_outcome(whole, train(settings, tmp_path / "parts"))


def _train_in_a_child(settings: Settings, folder: Path) -> int:
    """Return the number of a process that trains and saves after every step."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(settings, folder, checkpoint_every=1)
            code = 0
        finally:
            os._exit(code)
    return child


def test_twenty_kills_lose_nothing(tmp_path: Path) -> None:
    settings = small(method="sims", epochs=12)
    whole = train(settings, tmp_path / "whole")
    folder, chance = tmp_path / "killed", random.Random(0)
    path = folder / "checkpoint.pt"
    stopped: list[int] = []  # after how many steps
    while len(stopped) < 20:
        before = path.stat().st_mtime_ns if stopped else 0
        child = _train_in_a_child(settings, folder)
        end = time.monotonic() + 60
        while not (path.exists() and path.stat().st_mtime_ns != before) and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.06))  # a step, or the writing of its checkpoint
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the run ended, or failed, before it was killed"
        state = checkpoint(folder)  # whole, whenever it was
        assert read_settings(folder) == settings
        stopped.append(4 * state["epoch"] + state["batch"])
    assert stopped == sorted(stopped)
    assert stopped[-1] > stopped[0] + 8  # over several epochs
    assert_same_outcome(whole, train(settings, folder))
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(folder))
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]


def test_a_failing_evaluation_leaves_its_epoch_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(method="dwa", epochs=3)
    whole = train(settings, tmp_path / "whole")
    calls = iter(range(100))

    def broken(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise OSError("the disk is gone")
        return evaluate(*arguments, **options)

    monkeypatch.setattr("torchsims.training._loop.evaluate", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        train(settings, tmp_path / "broken")
    assert_same_outcome(whole, train(settings, tmp_path / "broken"))
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "broken"))


def test_a_run_goes_on_with_the_threads_it_had(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(StoppedError):
            train(small(), tmp_path, watches=[Interrupt(1)])
        torch.set_num_threads(1)
        train(small(), tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(ValueError, match="Another process trains in"):
        train(small(method="ew", epochs=1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_late_interrupt_is_not_lost() -> None:
    with asked_to_stop() as outer:
        with asked_to_stop() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
            assert inner()
        assert outer()


def test_a_failing_step_leaves_the_state_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(method="sims")
    whole = train(settings, tmp_path / "whole")
    losses, calls = type(settings.workload()).losses, iter(range(100))

    def broken(self: Workload, predictions: Any, batch: Any) -> Any:
        if next(calls) == 9:
            raise FileNotFoundError("image 12 is gone")
        return losses(self, predictions, batch)

    monkeypatch.setattr(type(settings.workload()), "losses", broken)
    with pytest.raises(FileNotFoundError, match="image 12"):
        train(settings, tmp_path / "broken")
    assert checkpoint(tmp_path / "broken")["batch"] == 0  # two calls a step
    assert checkpoint(tmp_path / "broken")["epoch"] == 1
    monkeypatch.undo()
    assert_same_outcome(whole, train(settings, tmp_path / "broken"))


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    replace_file(path, b"before")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_is_moved_into_its_place_and_never_written_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.pt"
    replace_file(path, b"before")

    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("keep", [0, 10, 1000, 5000, 20000, -1])
def test_a_truncated_checkpoint_is_refused(keep: int, tmp_path: Path) -> None:
    train(small(method="ew", epochs=1), tmp_path)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content := path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="truncated, damaged, or none"):
        train(small(method="ew", epochs=1), tmp_path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("change", [{"method": "gls"}, {"seed": 1}, {"rescale": {"depth": 2.0}}, {"epochs": 3}])
def test_the_checkpoint_of_another_run_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    train(small(method="ew", epochs=1), tmp_path)
    content = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=f"belongs to a run with `{next(iter(change))} = "):
        train(small(**{"method": "ew", "epochs": 1, **change}), tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == content


# Ranks and micro-batches.


def _on_a_rank(rank: int, folder: str, settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    outcome = train(settings, Path(folder))
    return dict(outcome.history), outcome.metrics


def test_two_processes_are_one(tmp_path: Path) -> None:
    settings = small(method="sims", dtype="float64", epochs=5)  # 20 steps
    alone = train(settings, tmp_path / "alone")
    found = run_ranks({"run": (_on_a_rank, (str(tmp_path / "two"), settings))})["run"]
    for history, metrics in found:
        for task, losses in alone.history["losses"].items():
            np.testing.assert_allclose(history["losses"][task], losses, rtol=1e-6)
        for task, values in alone.metrics.items():
            assert metrics[task] == pytest.approx(values, rel=1e-6)
    assert found[0] == found[1]


def test_metrics_of_one_model_are_the_same_on_two_processes(tmp_path: Path) -> None:
    settings = small(method="ew", epochs=1)
    alone = train(settings, tmp_path)
    # Both go on from the finished checkpoint, so that only the evaluation is left.
    for _, metrics in run_ranks({"run": (_on_a_rank, (str(tmp_path), settings))})["run"]:
        for task, values in alone.metrics.items():
            assert metrics[task] == pytest.approx(values, rel=1e-12)


def test_micro_batches_are_one_batch(tmp_path: Path) -> None:
    whole = train(small(dtype="float64"), tmp_path / "whole")
    parts = train(small(dtype="float64", micro_batches=4), tmp_path / "parts")
    for task, losses in whole.history["losses"].items():
        np.testing.assert_allclose(parts.history["losses"][task], losses, rtol=1e-9)


# What a run looks at.


def test_the_test_split_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = type(small().workload())
    split, seen = workload.split, []

    def spy(self: Workload, name: str) -> Any:
        seen.append(name)
        return split(self, name)

    monkeypatch.setattr(workload, "split", spy)
    train(small(), tmp_path)
    assert seen == ["train", "val", "val", "test", "test"]  # the second time for the pictures


def test_seeds_differ_in_the_model_and_in_the_order(tmp_path: Path) -> None:
    train(small(method="ew", epochs=1, lr=1e-12), tmp_path / "0")
    train(small(method="ew", epochs=1, lr=1e-12, seed=1), tmp_path / "1")
    one, other = (tensors(checkpoint(tmp_path / name)["model"]) for name in "01")
    assert not torch.equal(one["/heads.depth.out.weight"], other["/heads.depth.out.weight"])
    assert list(training_batches(16, 4, 0, 0)) != list(training_batches(16, 4, 1, 0))


def test_an_epoch_shows_every_item_once() -> None:
    for epoch in range(3):
        assert sorted(i for batch in training_batches(12, 3, 5, epoch) for i in batch) == list(range(12))
    assert list(training_batches(12, 3, 5, 0)) != list(training_batches(12, 3, 5, 1))


@pytest.mark.parametrize(("items", "batch"), [(5, 2), (12, 3), (1000, 7), (9, 9)])
def test_batches_made_when_asked_for_are_those_of_a_list_of_all(items: int, batch: int) -> None:
    for seed, epoch in ((0, 0), (3, 2)):
        order = torch.randperm(items, generator=torch.Generator().manual_seed(mix(seed, epoch))).tolist()  # 64 bit
        everything = [order[start : start + batch] for start in range(0, items - batch + 1, batch)]
        found = training_batches(items, batch, seed, epoch)
        assert list(found) == everything
        assert len(found) == len(everything)
        for start in range(len(everything) + 1):  # a run that goes on begins in the middle
            assert list(found[start:]) == everything[start:]
            assert len(found[start:]) == len(everything[start:])
        assert found[-1] == everything[-1]
        with pytest.raises(IndexError):
            found[len(everything)]


def test_the_order_is_the_one_it_has_always_been() -> None:
    assert list(training_batches(5, 2, seed=0, epoch=0)) == [[3, 1], [2, 4]]
    assert list(training_batches(5, 2, seed=0, epoch=1)) == [[1, 4], [0, 2]]


def test_batches_need_no_memory_of_their_own() -> None:
    tracemalloc.start()
    try:
        batches = training_batches(1_000_000, 1000, 0, 0)[500:]
        assert sum(len(batch) for batch in batches) == 500_000
        assert tracemalloc.get_traced_memory()[1] < 2**20  # a list of all items has 36 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("ranks", "parts"), [(1, 1), (2, 1), (3, 2)])
def test_shards_make_up_the_batch(ranks: int, parts: int) -> None:
    batch = [9, 4, 7, 1, 0, 3, 2]
    found = [item for rank in range(ranks) for part in shards(batch, rank, ranks, parts) for item in part]
    assert sorted(found) == sorted(batch)


def test_a_batch_without_an_item_for_everyone_is_refused() -> None:
    with pytest.raises(ValueError, match="an item for each of 2 ranks and 3 micro-batches"):
        shards([1, 2, 3, 4], 1, 2, 3)


def test_near_seeds_have_nothing_in_common() -> None:
    seeds = [mix(seed, step) for seed in range(40) for step in range(40)]
    assert len(set(seeds)) == len(seeds)
    bits = np.array([[seed >> k & 1 for k in range(63)] for seed in seeds])
    assert abs(bits.mean(0) - 0.5).max() < 0.06  # 4.8 standard errors


def test_the_rate_rises_then_falls_to_nothing() -> None:
    factors = [rate_factor(step, 1000, 0.1) for step in range(1000)]
    assert max(factors) == factors[99] == 1.0
    assert all(a < b for a, b in pairwise(factors[:100]))
    assert all(a > b for a, b in pairwise(factors[100:]))
    assert 0 < factors[-1] < 2e-3


def test_both_copies_follow_the_schedule(tmp_path: Path) -> None:
    train(small(method="sims:ratio=5", lr=1e-3), tmp_path)
    method = checkpoint(tmp_path)["method"]
    outer, inner = (method[name]["param_groups"][0]["lr"] for name in ("outer", "inner"))
    assert inner == pytest.approx(5 * outer)
    assert outer == pytest.approx(1e-3 * rate_factor(7, 8, 0.1))


def test_the_event_file_has_raw_losses_weights_and_merit(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    settings = small(method="sims", rescale={"depth": 1024.0})
    with pytest.raises(StoppedError):
        train(settings, tmp_path, watches=[TensorBoard(tmp_path / "tb"), Interrupt(5)])
    with pytest.raises(StoppedError):
        train(settings, tmp_path, watches=[TensorBoard(tmp_path / "tb"), Interrupt(6)])
    outcome = train(settings, tmp_path, watches=[TensorBoard(tmp_path / "tb")])
    events = EventAccumulator(str(tmp_path / "tb")).Reload()
    scalars = set(events.Tags()["scalars"])
    assert {"losses/depth", "weights/seg", "merit", "rate", "validation/depth/abs_err"} <= scalars
    assert [event.step for event in events.Scalars("validation/depth/abs_err")] == [3, 7]
    steps = [event.step for event in events.Scalars("losses/depth")]
    assert steps == list(range(8))  # none twice, none left out
    last = np.mean([event.value for event in events.Scalars("losses/depth")][4:])
    assert last == pytest.approx(outcome.history["losses"]["depth"][-1], rel=1e-5)


# Settings.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"method": "simms"}, "There is no method `simms`. Did you mean `sims`?"),
        ({"method": "sims:tau=0"}, "Parameter `tau` should be positive"),
        ({"data": "scene"}, "There is no data `scene`. Did you mean `scenes`?"),
        ({"data": "scenes:image=3"}, "There is no option of data `scenes` `image`. Did you mean `images`?"),
        ({"model": "hsp"}, "There is no model `hsp`. Did you mean `hps`?"),
        ({"tasks": ("dept",)}, "There is no task `dept`. Did you mean `depth`?"),
        ({"tasks": ("depth", "depth")}, "Parameter `tasks` should hold distinct names"),
        ({"root": "/nowhere"}, "Scenes are rendered and have no folder"),
        ({"rescale": {"depth": 0.0}}, "Parameter `rescale` should be positive"),
        ({"rescale": {"edges": 2.0}}, "There is no task `edges`"),
        ({"epochs": 0}, "Parameter `epochs` should be positive"),
        ({"lr": float("nan")}, "Parameter `lr` should be positive"),
        ({"warmup": 1.0}, r"Parameter `warmup` should be in \[0, 1\)"),
        ({"dtype": "float16"}, "There is no dtype `float16`"),
        ({"seed": -1}, "Parameter `seed` should not be negative"),
        ({"seed": 2**63}, "Parameter `seed` should be below"),
        ({"method": "sims:tau=1:tau=2"}, "should be given once. Found `tau` twice"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        small(**change)


def test_naming_a_method_draws_no_random_number() -> None:
    before = torch.get_rng_state()
    small(method="rlw")
    Method("sims:perturb=0.1")
    assert torch.equal(torch.get_rng_state(), before)


def test_settings_survive_writing_down() -> None:
    settings = small(method="SIMS:tau=1", tasks=("depth", "seg"), rescale={"depth": 100.0})
    assert Settings.from_plain(settings.plain()) == settings
    assert settings.method == "sims:tau=1"


def test_a_batch_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most the number of items, 16"):
        train(small(batch=17), tmp_path)
