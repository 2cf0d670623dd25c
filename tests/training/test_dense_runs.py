"""Runs of dense architectures on pretrained encoders: stopped and resumed, loaded again, with every task alone."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchsims
from helpers.small_encoders import resnet_config, save_encoder
from helpers.small_folders import write_scenes
from helpers.training_cases import assert_same_tensors, checkpoint
from torchsims.models.sam2.adapters import TaskTensor
from torchsims.training import Callback, RunConfig, StepValues, StoppedError, TensorBoard, train
from torchsims.training.predict import load_model

FOLDER = "FOLDER"  # stands for the folder of the encoder
ENCODER = f"encoder={FOLDER}:width=8"
LIGHT = f"{ENCODER}:head=light"
CASES = [
    (f"hps:{LIGHT}", "sims"),
    (f"stl:{LIGHT}:frozen=1", "ew"),
    (f"crossstitch:{LIGHT}", "ew"),
    (f"nddr:{LIGHT}", "ew"),
    (f"mtan:{LIGHT}", "ew"),
    (f"densemtl:{ENCODER}:checkpointing=yes", "ew"),
    (f"swinmtl:{ENCODER}", "ew"),
    ("sam2:encoder=toy:rank=2:size=32:adapter=mtsam", "sims"),
]


class Interrupt(Callback):
    """Interrupts a step, as Ctrl-C does."""

    def on_step(self, step: int, values: StepValues) -> None:
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dense")
    write_scenes(root / "rooms", "train", size=7)
    write_scenes(root / "rooms", "val", size=2)
    save_encoder(root / "encoder", resnet_config())
    return root


def settings_of(folder: Path, model: str, **changes: Any) -> RunConfig:
    usual = {"data": "nyuv2:height=32:width=32:validation=0.2", "root": str(folder / "rooms"), "epochs": 1, "batch": 2}
    text = model.replace(FOLDER, str(folder / "encoder"))
    return RunConfig(**{**usual, "model": text, "lr": 3e-3, "method": "ew", **changes})


@pytest.mark.parametrize(("model", "method"), CASES)
def test_a_resumed_run_ends_like_one_without_a_stop_and_predicts_again(
    model: str, method: str, folder: Path, tmp_path: Path
) -> None:
    settings = settings_of(folder, model, method=method)
    run = train(settings, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, tmp_path / "parts", callbacks=[Interrupt()])
    train(settings, tmp_path / "parts")
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    predictor = torchsims.load(tmp_path / "parts")
    assert run.samples is not None
    found = predictor.predict(run.samples["image"][0].transpose(1, 2, 0))
    np.testing.assert_allclose(found["depth"], run.samples["prediction/depth"][0], rtol=1e-4, atol=1e-5)


def test_training_adds_the_regularizer_of_mtsam(folder: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    distances = []
    for factor in (0.0, 1e6):
        model = f"sam2:encoder=toy:rank=2:size=32:adapter=mtsam:orthogonality={factor}"
        train(
            settings_of(folder, model), tmp_path / str(factor), callbacks=[TensorBoard(tmp_path / f"events {factor}")]
        )
        blocks = [m for m in load_model(tmp_path / str(factor))[1].modules() if isinstance(m, TaskTensor)]
        distances.append(torch.cat([block.distances().detach() for block in blocks]))
    assert (distances[1] < distances[0]).all()  # it is all that Adam follows
    events = EventAccumulator(str(tmp_path / "events 1000000.0")).Reload()
    values = [event.value for event in events.Scalars("regularizer")]
    assert values[-1] < values[0]
    assert len(values) == len(events.Scalars("lr"))


def test_training_starts_from_single_tasks(folder: Path, tmp_path: Path) -> None:
    train(settings_of(folder, f"stl:{LIGHT}"), tmp_path / "single")
    settings = settings_of(folder, f"crossstitch:{LIGHT}:start={tmp_path / 'single'}", lr=1e-12)
    train(settings, tmp_path / "run")
    single, model = (load_model(tmp_path / name)[1].state_dict() for name in ("single", "run"))
    pairs = {name: name.replace("encoders.", "networks.").replace("stem.", "trunk.stem.") for name in model}
    stems = {name: other for name, other in pairs.items() if name.startswith("encoders") and ".stem." in name}
    assert len(stems) >= 9
    for name, other in stems.items():
        torch.testing.assert_close(model[name], single[other], rtol=0, atol=1e-6)


def test_a_start_that_is_no_run_of_single_tasks_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Option `start` should be the folder of a run. Found `start=nowhere`."):
        train(settings_of(folder, f"nddr:{ENCODER}:start=nowhere"), tmp_path / "a")
    train(settings_of(folder, f"hps:{ENCODER}"), tmp_path / "shared")
    with pytest.raises(ValueError, match=r"should have one network per task, `--model stl`. Found a HPS."):
        train(settings_of(folder, f"nddr:{ENCODER}:start={tmp_path / 'shared'}"), tmp_path / "b")


def test_a_missing_encoder_is_said_before_anything_is_done(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Option `encoder` should be a folder, a hub id or one of small, resnet18"):
        train(settings_of(folder, "hps:encoder=./no/such/folder"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
