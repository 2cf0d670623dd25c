"""Runs on folders in the formats of the real data: splits, views, stopping, bad files, presets, precision."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.small_folders import SPOILED, write_pascal, write_scenes
from helpers.training_cases import assert_same_tensors, checkpoint, preset, small
from torchsims.methods import Method
from torchsims.models import SAM2MTL, sam2_config
from torchsims.training import Callback, Execution, RunConfig, StepValues, StoppedError, label_of, resolve, train
from torchsims.training.batches import training_batches
from torchsims.training.presets import find_changes
from torchsims.training.trainable import frozen_sums, load_trainable_state, trainable_state
from torchsims.workloads import load_workload

SAM2 = "sam2:encoder=toy:rank=4:size=32"


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("rooms")
    write_scenes(root, "train", size=10)
    write_scenes(root, "val", size=4)
    return root


@pytest.fixture
def copy(rooms: Path, tmp_path: Path) -> Path:
    return shutil.copytree(rooms, tmp_path / "copy")


def settings_of(folder: Path, **changes: Any) -> RunConfig:
    """Return settings of 2 epochs with 4 steps each; two of the ten images are validated on."""
    usual = {"data": "nyuv2:validation=0.2", "root": str(folder), "tasks": ("seg", "depth"), "model": "hps:width=8"}
    return RunConfig(**{**usual, "epochs": 2, "batch": 2, "lr": 3e-3, "method": "sims", **changes})


class At(Callback):
    """Does something once, during a step."""

    def __init__(self, step: int, act: Callable[[], object]) -> None:
        self.at, self.act = step, act

    def on_step(self, step: int, values: StepValues) -> None:
        if step == self.at:
            self.act()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


# The splits and the views.


def test_what_is_reported_is_never_trained_or_validated_on(rooms: Path) -> None:
    workload = load_workload("nyuv2:validation=0.2:augment=no", ("depth",), str(rooms))
    parts = {name: workload.split(name) for name in ("train", "val", "test")}
    assert {name: len(part) for name, part in parts.items()} == {"train": 8, "val": 2, "test": 4}  # type: ignore[arg-type]
    images = {name: {part[i]["image"].numpy().tobytes() for i in range(len(part))} for name, part in parts.items()}  # type: ignore[arg-type]
    assert len(images["train"] | images["val"] | images["test"]) == 14


def test_all_of_train_can_be_trained_on(rooms: Path, tmp_path: Path) -> None:
    run = train(settings_of(rooms, data="nyuv2:validation=0", epochs=1), tmp_path)
    assert len(run.history.losses["seg"]) == 1
    assert run.history.validation == {}


def test_only_training_sees_views_and_they_change_with_the_epoch(rooms: Path) -> None:
    workload = load_workload("nyuv2", ("depth",), str(rooms))
    seen: dict[int, list[torch.Tensor]] = {}
    for epoch in (0, 1, 0):
        workload.begin_epoch(epoch)
        items = [workload.split(name)[0]["depth"] for name in ("train", "val", "test")]
        before = seen.setdefault(epoch, items)
        assert all(torch.equal(a, b) for a, b in zip(before, items, strict=True))
    assert not torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1], seen[1][1])


@pytest.mark.parametrize("model", ["hps:width=8", SAM2])
def test_a_run_that_stopped_ends_like_one_that_did_not(model: str, rooms: Path, tmp_path: Path) -> None:
    settings = settings_of(rooms, model=model)
    whole = train(settings, tmp_path / "whole")
    for at in (1, 5):
        with pytest.raises(StoppedError):
            train(settings, tmp_path / "parts", callbacks=[At(at, interrupt)])
    parts = train(settings, tmp_path / "parts", execution=Execution(workers=1))
    assert whole.metrics == parts.metrics
    assert whole.history.to_dict() == parts.history.to_dict()
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))


def test_every_task_of_pascal_is_trained_and_measured(tmp_path: Path) -> None:
    write_pascal(tmp_path / "pascal")
    lists = tmp_path / "pascal" / "ImageSets" / "Context"
    shutil.copy(lists / "train.txt", lists / "val.txt")
    data = "pascal:height=32:width=48:validation=0.34"
    run = train(settings_of(tmp_path / "pascal", data=data, tasks=(), epochs=1), tmp_path / "run")
    assert {task: next(iter(m)) for task, m in run.metrics.items()} == {
        "seg": "miou",
        "parts": "miou",
        "normals": "mean",
        "saliency": "miou",
    }
    assert run.samples is not None
    assert run.samples["prediction/saliency"].shape == (3, 1, 32, 48)


# Only what is trained is saved.


def test_frozen_parameters_are_not_in_the_checkpoint(rooms: Path, tmp_path: Path) -> None:
    train(settings_of(rooms, model=SAM2, epochs=1), tmp_path)
    model = resolve(settings_of(rooms, model=SAM2)).build_model()
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    saved = checkpoint(tmp_path)
    assert len(frozen) > 50
    assert not frozen & saved["model"].keys()
    assert saved["model"].keys() | frozen == model.state_dict().keys()
    assert not any("base_layer" in name for name in saved["trainer"]["method"]["parameters"])


def test_another_encoder_is_refused() -> None:
    def make(seed: int) -> SAM2MTL:
        torch.manual_seed(seed)
        return SAM2MTL({"depth": 1}, sam2_config("toy"), rank=2, size=32)

    one, other = make(0), make(1)
    with pytest.raises(ValueError, match="frozen parameters of the model should be those"):
        load_trainable_state(other, trainable_state(one), frozen_sums(one))
    with pytest.raises(ValueError, match="frozen parameters"):
        load_trainable_state(one, trainable_state(one), [])
    with pytest.raises(ValueError, match="should be one of this model"):
        load_trainable_state(one, {}, frozen_sums(one))


# Bad input.


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", SPOILED)
def test_a_bad_file_is_named_and_the_state_before_it_saved(what: str, workers: int, copy: Path, tmp_path: Path) -> None:
    folder, spoil, sentence = SPOILED[what]
    settings = settings_of(copy, epochs=1, method="ew")
    whole = train(settings, tmp_path / "whole")
    last = int(training_batches(8, settings.batch, settings.seed, 0)[3][0])
    index = resolve(settings).workload.split("train").indices[last]  # type: ignore[attr-defined]
    path = copy / "train" / folder / f"{index}.npy"
    content = path.read_bytes()
    spoils = [At(0, lambda: spoil(path))]  # a folder that lacks a file from the start is refused at once
    with pytest.raises((ValueError, OSError), match=sentence) as found:
        train(settings, tmp_path / "run", callbacks=spoils, execution=Execution(workers=workers))
    assert path.name in str(found.value)
    assert "\n" not in str(found.value)
    assert checkpoint(tmp_path / "run")["trainer"]["step"] == 3
    path.write_bytes(content)
    assert train(settings, tmp_path / "run").history.to_dict() == whole.history.to_dict()


def test_a_bad_file_of_the_evaluation_costs_no_epoch(copy: Path, tmp_path: Path) -> None:
    settings = settings_of(copy)
    whole = train(settings, tmp_path / "whole")
    index = resolve(settings).workload.split("val").indices[0]  # type: ignore[attr-defined]
    path = copy / "train" / "label" / f"{index}.npy"
    content = path.read_bytes()
    with pytest.raises(ValueError, match=f"{index}.npy"):
        train(settings, tmp_path / "run", callbacks=[At(5, lambda: path.write_bytes(b"\x93NUMPY"))])
    path.write_bytes(content)
    assert train(settings, tmp_path / "run").history.to_dict() == whole.history.to_dict()
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "run"))


@pytest.mark.parametrize(("folder", "suffix"), [("JPEGImages", "jpg"), ("semseg/VOC12", "png")])
def test_a_corrupt_picture_is_named(folder: str, suffix: str, tmp_path: Path) -> None:
    write_pascal(tmp_path / "pascal")
    lists = tmp_path / "pascal" / "ImageSets" / "Context"
    shutil.copy(lists / "train.txt", lists / "val.txt")
    path = tmp_path / "pascal" / folder / f"2008_000003.{suffix}"
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:40])
    data = "pascal:height=32:width=48:validation=0"
    settings = settings_of(tmp_path / "pascal", data=data, tasks=("seg",), epochs=1, batch=3, method="ew")
    with pytest.raises(ValueError, match=f"2008_000003.{suffix}"):
        train(settings, tmp_path / "run")
    assert checkpoint(tmp_path / "run")["trainer"]["step"] == 0


def test_what_a_folder_lacks_is_said_before_anything_is_done(copy: Path) -> None:
    def check(**changes: Any) -> None:
        resolve(settings_of(copy, **changes))

    check()
    with pytest.raises(ValueError, match="NYUv2 should be in a folder: name it with `root`"):
        check(root="")
    with pytest.raises(ValueError, match="Option `encoder` should be a folder"):
        check(model="sam2:encoder=/no/such/folder")
    shutil.rmtree(copy / "val")
    with pytest.raises(ValueError, match=r"Missing: `val` \(no folder val/image, val/label, val/depth with a file\)"):
        check()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"data": "nyuv2:validation=1"}, r"Option `validation` should be in \[0, 1\)"),
        ({"data": "nyuv2:height=96"}, "Options `height` and `width` should both be given"),
        ({"data": "nyuv2:split_seed=-1"}, "Option `split_seed` should not be negative"),
        ({"model": "sam2:encoder=tinny"}, "There is no encoder `tinny`. Did you mean `tiny`?"),
        ({"model": "sam2:encoder=toy:size=100"}, "multiples of 32"),
        ({"model": "sam2:encoder=toy:rank=0"}, "Parameter `rank` should be positive"),
        ({"model": "sam2:tiny"}, "an option should look like name=value"),
        ({"autocast": "half"}, "There is no autocast `half`"),
        ({"autocast": "bf16", "dtype": "float64"}, "Parameter `autocast` should be `none` with float64"),
        ({"memory_format": "channels_first"}, "There is no memory_format `channels_first`"),
        ({"preset": "papers"}, "There is no preset of the data `papers`. Did you mean `paper`?"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], sentence: str, rooms: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        resolve(settings_of(rooms, **change))


# Precision.


def _scaler(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = checkpoint(folder)["trainer"]["scaler"]
    return state


@pytest.mark.parametrize("autocast", ["bf16", "fp16"])
def test_autocast_is_near_and_goes_on_bit_for_bit(autocast: str, tmp_path: Path) -> None:
    settings = small(autocast=autocast, clip=1.0)
    exact = train(small(clip=1.0), tmp_path / "exact")
    whole = train(settings, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, tmp_path / "parts", callbacks=[At(5, interrupt)])
    train(settings, tmp_path / "parts")
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    assert _scaler(tmp_path / "whole") == _scaler(tmp_path / "parts")
    assert bool(_scaler(tmp_path / "whole")) == (autocast == "fp16")
    assert whole.history.losses != exact.history.losses
    for task, losses in exact.history.losses.items():
        np.testing.assert_allclose(whole.history.losses[task], losses, rtol=0.02)


def test_a_scaler_that_overflows_skips_and_learns(tmp_path: Path) -> None:
    run = train(small(autocast="fp16", rescale={"depth": 1e30}, method="ew", epochs=1), tmp_path)
    assert _scaler(tmp_path)["scale"] < 65536
    assert all(np.isfinite(losses).all() for losses in run.history.losses.values())


# Memory format.


def test_channels_last_is_the_same_to_rounding_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = small(dtype="float64", memory_format="channels_last")
    filters = [p for p in resolve(settings).build_model().parameters() if p.dim() == 4 and p.shape[-1] > 1]
    assert filters
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in filters)
    contiguous = train(small(dtype="float64"), tmp_path / "contiguous")
    whole = train(settings, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(settings, tmp_path / "parts", callbacks=[At(5, interrupt)])
    train(settings, tmp_path / "parts")
    assert_same_tensors(checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts"))
    for task, losses in contiguous.history.losses.items():
        np.testing.assert_allclose(whole.history.losses[task], losses, rtol=1e-6)


# Presets.


def test_presets_are_those_of_the_paper_and_of_the_script() -> None:
    found = {
        (data, name): preset(name, data=data, method="sims")
        for data in ("nyuv2", "cityscapes", "pascal")
        for name in ("paper", "authors", "ablation")
    }
    options = {key: Method(settings.method).options for key, settings in found.items()}
    assert {data: options[data, "paper"]["tau"] for data, _ in found} == {"nyuv2": 5, "cityscapes": 3, "pascal": 3}
    assert {data: options[data, "authors"]["tau"] for data, _ in found} == {"nyuv2": 3, "cityscapes": 3, "pascal": 3}
    assert {d: options[d, "authors"]["prox"] for d, _ in found} == {"nyuv2": 1e-3, "cityscapes": 1e-5, "pascal": 1e-5}
    assert {data: options[data, "authors"]["ratio"] for data, _ in found} == {"nyuv2": 5, "cityscapes": 1, "pascal": 1}
    assert {data: found[data, "paper"].epochs for data, _ in found} == {"nyuv2": 100, "cityscapes": 100, "pascal": 30}
    for (_, name), settings in found.items():
        assert (settings.batch, settings.lr, settings.weight_decay) == (4, 1e-4, 1e-6)
        assert settings.warmup == (0.05 if name == "authors" else 0.1)
        assert ("tiny:rank=16" in settings.model) == (name == "ablation")
        assert settings.data.endswith(":validation=0")
        assert find_changes(settings) == {}
    assert options["nyuv2", "authors"]["order"] == "alternating"
    assert preset("paper", data="nyuv2", method="stch").method == "stch:mu=5"
    assert preset("paper", data="nyuv2", method="ew").method == "ew"


def test_everything_in_a_preset_can_be_overridden_and_is_listed() -> None:
    changed = {"method": "sims:tau=1", "model": "sam2:rank=8:checkpointing=yes", "data": "nyuv2:height=96:width=128"}
    settings = preset("paper", **changed, epochs=2)
    assert settings.method == "sims:prox=0:ratio=5:tau=1"
    assert "checkpointing=yes" in settings.model
    assert "rank=8" in settings.model
    assert "hiera-large" in settings.model
    assert settings.data == "nyuv2:height=96:width=128:validation=0"
    assert find_changes(settings).keys() == {"data", "model", "epochs", "method"}
    assert find_changes(settings)["epochs"] == (100, 2)
    assert preset("paper", data="nyuv2", model="hps").model == "hps"
    assert RunConfig.from_dict(settings.to_dict()) == settings


def test_one_temperature_for_three_methods() -> None:
    from torchsims.experiments.methods import comparison

    found = comparison(preset("paper", data="nyuv2"), 1)
    methods = [run.method for run in found.configs if run.method.startswith(("sims", "foops", "stch"))]
    assert len(methods) == 4
    assert all("tau=5" in method or "mu=5" in method for method in methods)
    assert found.baseline is not None
    assert label_of(found.baseline) == "EW"
