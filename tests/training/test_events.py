"""Event files: their format, and when they are written."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from torchsims.training import StepValues, TensorBoard
from torchsims.training.records import BLOCK, record

VALUES = StepValues({"depth": 0.5}, {"depth": 1.0}, lr=1e-3)


@pytest.mark.parametrize("length", [*range(12), BLOCK - 1, *range(BLOCK, BLOCK + 6), 2 * BLOCK, 3000])
def test_a_record_is_the_one_that_tensorboard_writes(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    file = io.BytesIO()
    RecordWriter(file).write(data)
    assert record(data) == file.getvalue()


def steps_in(folder: Path) -> list[int]:
    """Return the steps with a loss in the files of a run that may still be training."""
    events = EventAccumulator(str(folder)).Reload()
    return [event.step for event in events.Scalars("losses/depth")] if events.Tags()["scalars"] else []


def test_all_steps_of_an_epoch_are_in_the_file_when_it_ends(tmp_path: Path) -> None:
    events = TensorBoard(tmp_path)
    events.on_start(0, 6)
    for step in range(3):
        events.on_step(step, VALUES)
    events.on_epoch(2, {"depth": {"abs_err": 0.25}})
    assert steps_in(tmp_path) == [0, 1, 2]
    events.on_step(3, VALUES)
    assert steps_in(tmp_path) == [0, 1, 2]
    events.on_end()  # as after Ctrl-C
    assert steps_in(tmp_path) == [0, 1, 2, 3]


def test_steps_of_a_long_epoch_are_in_the_file_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("torchsims.training.callbacks.monotonic", lambda: now)
    events = TensorBoard(tmp_path)
    events.on_start(0, 6)
    written = []
    for step, now in enumerate([0.0, 0.9, 1.1, 1.2, 5.0, 9.0]):  # noqa: B007  # read by the clock
        events.on_step(step, VALUES)
        written.append(len(steps_in(tmp_path)))
    events.on_end()
    assert written == [0, 0, 3, 3, 5, 6]


def test_events_of_a_run_are_not_those_of_another(tmp_path: Path) -> None:
    events = TensorBoard(tmp_path / "first")
    events.on_start(0, 2)
    events.on_step(1, VALUES)
    shutil.rmtree(tmp_path / "first")
    events.on_end()
    events.on_end()  # as when another callback fails at its start
    events.on_start(0, 2)
    events.on_step(0, VALUES)
    events.on_end()
    assert steps_in(tmp_path / "first") == [0]
