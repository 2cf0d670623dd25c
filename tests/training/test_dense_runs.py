"""Runs of dense architectures on pretrained encoders: stopped and resumed, loaded again, with every task alone."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchsims
from helpers.small_encoders import mobilenet_config, save_encoder
from helpers.small_folders import write_scenes
from helpers.training_cases import assert_same_tensors, checkpoint
from torchsims.training import Callback, RunConfig, StepValues, StoppedError, train

FOLDER = "FOLDER"  # stands for the folder of the encoder
MODELS = [f"hps:encoder={FOLDER}:width=8", f"stl:encoder={FOLDER}:width=8:frozen=1"]


class Interrupt(Callback):
    """Interrupts a step, as Ctrl-C does."""

    def on_step(self, step: int, values: StepValues) -> None:
        if step == 4:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dense")
    write_scenes(root / "rooms", "train", size=8)
    write_scenes(root / "rooms", "val", size=2)
    save_encoder(root / "encoder", mobilenet_config())
    return root


def settings_of(folder: Path, model: str, **changes: Any) -> RunConfig:
    usual = {"data": "nyuv2:height=32:width=48:validation=0.2", "root": str(folder / "rooms"), "epochs": 2, "batch": 2}
    text = model.replace(FOLDER, str(folder / "encoder"))
    return RunConfig(**{**usual, "model": text, "lr": 3e-3, "method": "sims", **changes})


@pytest.mark.parametrize("model", MODELS)
def test_a_resumed_run_ends_like_one_without_a_stop_and_predicts_again(
    model: str, folder: Path, tmp_path: Path
) -> None:
    settings = settings_of(folder, model)
    run = train(settings, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, tmp_path / "parts", callbacks=[Interrupt()])
    train(settings, tmp_path / "parts")
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    predictor = torchsims.load(tmp_path / "parts")
    assert run.samples is not None
    found = predictor.predict(run.samples["image"][0].transpose(1, 2, 0))
    np.testing.assert_allclose(found["depth"], run.samples["prediction/depth"][0], rtol=1e-4, atol=1e-5)


def test_a_missing_encoder_is_said_before_anything_is_done(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Option `encoder` should be a folder, a hub id or one of small, resnet18"):
        train(settings_of(folder, "hps:encoder=./no/such/folder"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
