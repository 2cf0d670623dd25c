"""`torchsims.load` and `torchsims predict`: a run that was trained looks at images that it has never seen."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import torchsims
from helpers.commands import Call
from helpers.shared_data import shared
from helpers.small_folders import photographs, write_scenes
from torchsims.training import RunConfig, train


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose data is gone, with its run beside it."""
    folder = tmp_path_factory.mktemp("finished")
    write_scenes(folder / "rooms", "train", size=6)
    write_scenes(folder / "rooms", "val", size=3)
    model = "sam2:encoder=toy:rank=2:size=32"
    settings = RunConfig("nyuv2", "ew", model, root=str(folder / "rooms"), epochs=1, batch=2)
    run = train(settings, folder / "run")
    np.savez(folder / "samples.npz", **run.samples)  # type: ignore[arg-type]
    shutil.rmtree(folder / "rooms")
    return folder


def test_a_reloaded_run_predicts_what_it_predicted(finished: Path) -> None:
    predictor = torchsims.load(finished / "run")
    samples = np.load(finished / "samples.npz")
    for number, image in enumerate(samples["image"]):
        found = predictor.predict(image.transpose(1, 2, 0))
        assert found.keys() == {"seg", "depth", "normals"}
        np.testing.assert_array_equal(found["seg"], samples["prediction/seg"][number])
        np.testing.assert_allclose(found["depth"], samples["prediction/depth"][number], rtol=1e-4, atol=1e-5)


def test_loading_leaves_the_random_numbers_alone(finished: Path) -> None:
    torch.manual_seed(3)
    before = torch.rand(1)
    torch.manual_seed(3)
    torchsims.load(finished / "run")
    assert torch.equal(torch.rand(1), before)


@pytest.mark.parametrize("size", [(24, 32), (37, 91), (200, 50), (5, 5)])
def test_maps_have_the_size_of_the_image(size: tuple[int, int], finished: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    predictor = torchsims.load(finished / "run")
    assert isinstance(predictor, torchsims.Predictor)
    found = predictor.predict(pixels)
    assert {task: array.shape[-2:] for task, array in found.items()} == dict.fromkeys(found, size)


def test_predict_writes_a_map_of_every_task(finished: Path, call: Call, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (30, 50, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
    Image.fromarray(rng.integers(0, 256, (20, 20, 4), dtype=np.uint8)).save(tmp_path / "b.png")
    assert call("predict", finished / "run", tmp_path / "a.jpg", tmp_path / "b.png", "--out", tmp_path / "out") == 0
    names = {f"{image}_{what}.png" for image in "ab" for what in ("seg", "depth", "normals", "all")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names | {"results.json", "table.md", "report.html"}
    assert size_of(tmp_path / "out" / "a_depth.png") == (50, 30)


def test_what_cannot_be_predicted_is_one_sentence(
    finished: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.fromarray(np.zeros((9, 9, 3), dtype=np.uint8)).save(tmp_path / "a.jpg")
    (tmp_path / "broken.jpg").write_bytes((tmp_path / "a.jpg").read_bytes()[:100])
    shutil.copytree(finished / "run", tmp_path / "damaged")
    (tmp_path / "damaged" / "checkpoint.pt").write_bytes(b"PK")
    for run, image, sentence in (
        (tmp_path / "nowhere", "a.jpg", "There is no run with a checkpoint"),
        (tmp_path / "damaged", "a.jpg", "truncated or damaged"),
        (finished / "run", "none.jpg", "none.jpg` should be there"),
        (finished / "run", "broken.jpg", "broken.jpg` should be an image"),
    ):
        assert call("predict", run, tmp_path / image, "--out", tmp_path / "out") == 2
        errors = capsys.readouterr().err
        assert sentence in errors
        assert len(errors.strip().splitlines()) == 1
    assert call("predict", finished / "run", tmp_path / "a.jpg", tmp_path / "a.jpg", "--out", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


def test_photographs_are_trained_on_from_the_command_line_and_predicted(call: Call, tmp_path: Path) -> None:
    photographs(tmp_path / "nyuv2", "train", 20)
    photographs(tmp_path / "nyuv2", "val", 4)
    arguments = ["--data", "nyuv2", "--root", tmp_path / "nyuv2", "--tasks", "seg,depth", "--epochs", "2"]
    model = ["--model", "sam2:encoder=toy:rank=4:size=64", "--batch", "4"]
    assert call("train", *arguments, *model, "--out", tmp_path / "run") == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Changed from the preset" in page
    with zipfile.ZipFile(shared("nyuv2/nyuv2_rgb_96x128.zip")) as archive:
        (tmp_path / "photo.jpg").write_bytes(archive.read("0000.jpg"))
    assert call("predict", tmp_path / "run", tmp_path / "photo.jpg", "--out", tmp_path / "maps") == 0
    assert size_of(tmp_path / "maps" / "photo_seg.png") == (128, 96)
