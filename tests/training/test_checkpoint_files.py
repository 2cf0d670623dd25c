"""Files of a run: damage is noticed, the checkpoint before is kept, and files of others are left alone."""

import random
import time
from pathlib import Path
from threading import Event

import pytest
import torch

from helpers.commands import Call
from helpers.optimizers import OPTIMIZERS, build_with, inputs, two_losses
from helpers.small_runs import differences, snapshot
from helpers.training_cases import small
from torchsims.sweeps import with_variant
from torchsims.training import Callback, RunConfig, StepValues, Trainer, complete_config, train
from torchsims.training.checkpoints import (
    PREVIOUS,
    BackgroundWriter,
    checkpoint_bytes,
    read_checkpoint,
    replace_file,
    write_checkpoint,
)


def test_a_flipped_bit_of_a_tensor_is_noticed(tmp_path: Path) -> None:
    values = torch.rand(4096)
    for epoch in (1, 2):
        write_checkpoint(tmp_path, checkpoint_bytes(small(), {"epoch": epoch, "values": values}))
    path = tmp_path / "checkpoint.pt"
    content, chance = path.read_bytes(), random.Random(0)
    start = content.index(values.numpy().tobytes())
    for _ in range(20):
        damaged = bytearray(content)
        damaged[start + chance.randrange(4 * len(values))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"truncated or damaged. The one before it is .*{PREVIOUS}"):
            read_checkpoint(path)
    assert read_checkpoint(tmp_path / PREVIOUS)["epoch"] == 1


class Steps(Callback):
    """Counts the steps of a run, and says when there was one."""

    def __init__(self) -> None:
        self.count, self.taken = 0, Event()

    def on_step(self, step: int, values: StepValues) -> None:
        self.count += 1
        self.taken.set()


def test_steps_do_not_wait_for_the_disk_and_the_end_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, met = Steps(), []

    def slow(path: Path, content: bytes) -> None:
        met.append(steps.taken.wait(timeout=5))  # the first checkpoint is written while the run takes a step
        time.sleep(1.0 if steps.count == 8 else 0.0)  # the last one takes longer than what comes after it
        replace_file(path, content)

    monkeypatch.setattr("torchsims.training.checkpoints.replace_file", slow)
    train(small(), tmp_path, callbacks=[steps])
    assert all(met)
    assert read_checkpoint(tmp_path / "checkpoint.pt")["trainer"]["step"] == steps.count == 8
    assert read_checkpoint(tmp_path / PREVIOUS)["epoch"] == 1


def test_a_checkpoint_that_cannot_be_written_stops_the_run_at_its_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps()

    def full(path: Path, content: bytes) -> None:
        steps.taken.wait(timeout=5)
        raise OSError(28, f"No space left on device while writing `{path}`")

    monkeypatch.setattr("torchsims.training.checkpoints.replace_file", full)
    with pytest.raises(OSError, match=r"No space left on device while writing .*checkpoint\.pt"):
        train(small(batch=1), tmp_path, callbacks=[steps])
    assert steps.count < 16  # not at the end of the epoch, which may be hours away


def test_a_write_makes_up_for_one_that_failed(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    with BackgroundWriter() as writer:
        writer.start(fail)
        writer.start(lambda: replace_file(tmp_path / "file", b"content"))
    assert (tmp_path / "file").read_bytes() == b"content"
    with pytest.raises(OSError, match="No space"), BackgroundWriter() as writer:
        writer.start(fail)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS.keys() - {"ScheduleFreeWrapper"}))  # no rate to schedule
def test_a_checkpoint_holds_the_state_of_any_optimizer(optimizer: str, tmp_path: Path) -> None:
    first, second = (Trainer(build_with(optimizer, "SIMS", seed), two_losses, steps=4, warmup=0.0) for seed in range(2))
    for _ in range(2):
        first.step(inputs(optimizer, torch.float64))
    state = {"model": first.method.model.state_dict(), "trainer": first.state_dict()}
    write_checkpoint(tmp_path, checkpoint_bytes(RunConfig(), state))
    saved = read_checkpoint(tmp_path / "checkpoint.pt")
    second.method.model.load_state_dict(saved["model"])
    second.load_state_dict(saved["trainer"])
    for trainer in (first, second):
        trainer.step(inputs(optimizer, torch.float64))
    assert differences(snapshot(first.method), snapshot(second.method)) == []


def test_a_flipped_bit_of_the_directory_of_an_archive_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    import torch

    values = torch.rand(64)
    write_checkpoint(tmp_path, checkpoint_bytes(small(), {"values": values}))
    path = tmp_path / "checkpoint.pt"
    content = path.read_bytes()
    start = content.rindex(b"PK\1\2", 0, content.rindex(b"/data/0"))  # the entry of the tensor
    for place in range(start, start + 46):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                found = read_checkpoint(path)["values"]
            except ValueError:
                continue
            assert torch.equal(found, values), f"bit {bit} of byte {place - start}"


def test_saving_leaves_files_of_others_alone(tmp_path: Path) -> None:
    (tmp_path / ".oh-my-zsh").mkdir()
    (tmp_path / ".pre-commit-config.yaml").write_text("mine")
    write_checkpoint(tmp_path, checkpoint_bytes(RunConfig(), {}))
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == "mine"
    assert (tmp_path / ".oh-my-zsh").is_dir()


def test_a_folder_with_dot_files_belongs_to_others(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".pre-commit-config.yaml").write_text("mine")
    assert call("train", "--resume", "--out", tmp_path) == 2
    assert "new or empty folder" in capsys.readouterr().err


def test_single_networks_keep_the_options_of_the_preset() -> None:
    base = complete_config({"data": "nyuv2", "preset": "ablation", "model": "sam2:rank=8"})
    model = with_variant(base, "stl").model
    assert model.startswith("stl:of=sam2:")
    assert "rank=8" in model
    assert "encoder=facebook/sam2.1-hiera-tiny" in model
