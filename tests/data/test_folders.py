"""Readers return what the files hold, say what is missing and which file is wrong, and augment as one seed says."""

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from helpers.camera import back_project
from helpers.small_folders import photographs, write_parts, write_pascal, write_scenes
from torchsims.data import Cityscapes, NYUv2, PASCALContext, Scenes, write_frame
from torchsims.data.folders._pascal import PART_OF
from torchsims.data.folders._views import View, random_view


@pytest.fixture(scope="module")
def nyuv2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nyuv2")
    write_scenes(root)
    return root


@pytest.fixture
def copy(nyuv2: Path, tmp_path: Path) -> Path:
    """A folder to break."""
    shutil.copytree(nyuv2, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def pascal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pascal")
    write_pascal(root)
    return root


# What is read


def test_what_was_written_is_read(nyuv2: Path) -> None:
    data, scenes = NYUv2(nyuv2), Scenes("train", size=6, resolution=(24, 32))
    assert len(data) == 6
    for i in (0, 5, -1):
        item, expected = data[i], scenes[i]
        assert list(item) == ["image", "seg", "depth", "normals"]
        for name, value in item.items():
            torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
            assert value.dtype == expected[name].dtype
    with pytest.raises(IndexError, match="below 6"):
        data[6]


def test_arrays_in_the_types_that_are_found_in_the_field(tmp_path: Path) -> None:
    arrays = {
        "image": np.full((4, 5, 3), 255, dtype=np.uint8),
        "label": np.full((4, 5), -1.0),
        "depth": np.full((4, 5, 1), 2.5, dtype=np.float64),
        "normal": np.full((4, 5, 3), [0.0, 0.6, 0.8], dtype=np.float16),
    }
    arrays["label"][0, :2] = [12, 3]
    arrays["normal"][1] = 0
    for folder, array in arrays.items():
        (tmp_path / "val" / folder).mkdir(parents=True)
        np.save(tmp_path / "val" / folder / "0.npy", array)
    item = NYUv2(tmp_path, "val")[0]
    assert torch.equal(item["image"], torch.ones(3, 4, 5))
    assert item["seg"][0].tolist() == [12, 3, -1, -1, -1]
    assert torch.equal(item["depth"], torch.full((1, 4, 5), 2.5))
    torch.testing.assert_close(item["normals"][:, 0].norm(dim=0), torch.ones(5))
    assert not item["normals"][:, 1].any()


def test_images_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in (10, 9, 2, 0):
        frame = {"image": torch.full((3, 4, 4), number / 10), "depth": torch.ones(1, 4, 4)}
        write_frame(tmp_path, "train", number, frame)
    data = NYUv2(tmp_path, tasks=("depth",))
    assert [round(10 * item["image"].max().item()) for item in (data[i] for i in range(4))] == [0, 2, 9, 10]


def test_tasks_are_selectable_and_only_their_files_are_needed(copy: Path) -> None:
    shutil.rmtree(copy / "train" / "normal")
    data = NYUv2(copy, tasks=("depth", "seg"))
    assert list(data[0]) == ["image", "depth", "seg"]
    assert data.channels == {"depth": 1, "seg": 13}
    assert Cityscapes.CHANNELS == {"seg": 7, "depth": 1}
    assert Scenes(tasks=("edges",)).channels == {"edges": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "test"}, "Parameter `split` should be one of train, val. Found `split = 'test'`."),
        ({"tasks": "seg"}, "Parameter `tasks` should be a sequence out of seg, depth, normals. Found 'seg'."),
        ({"tasks": ()}, r"Parameter `tasks` should be a sequence out of seg, depth, normals. Found \(\)."),
        ({"tasks": ("edges",)}, "Parameter `tasks` should be a sequence out of seg, depth, normals. Found"),
        ({"seed": -1}, "Parameter `seed` should not be negative. Found `seed = -1`."),
        ({"resolution": (1, 4)}, "Parameter `resolution` should be two numbers from 2 up."),
    ],
)
def test_bad_options_are_refused(nyuv2: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NYUv2(nyuv2, **options)
    with pytest.raises(ValueError, match="Parameter `epoch` should not be negative"):
        NYUv2(nyuv2).set_epoch(-1)


# What is missing


def test_everything_that_is_missing_is_listed_at_once(copy: Path) -> None:
    shutil.rmtree(copy / "train" / "normal")
    (copy / "train" / "depth" / "3.npy").unlink()
    for number in range(5):
        (copy / "train" / "label" / f"{number}.npy").unlink()
    (copy / "train" / "image" / "5.npy").unlink()
    expected = [
        "`train/image` (1 of 6 files: 5.npy)",
        "`train/label` (5 of 6 files: 0.npy, 1.npy, 2.npy, ...)",
        "`train/depth` (1 of 6 files: 3.npy)",
        "`train/normal` (no such folder)",
    ]
    assert NYUv2.missing(copy) == expected
    with pytest.raises(FileNotFoundError) as error:
        NYUv2(copy)
    assert str(error.value) == (
        f"Folder `{copy}` should hold the split `train` of NYUv2 with the tasks seg, depth, normals. "
        f"Missing: {'; '.join(expected)}."
    )


def test_an_empty_split_and_a_missing_folder_are_named(copy: Path) -> None:
    assert NYUv2.missing(copy / "nowhere") == [f"`{copy}/nowhere` (no such folder)"]
    with pytest.raises(FileNotFoundError, match=r"Missing: `val` \(no folder val/image, .* with a file\)."):
        NYUv2(copy, "val")
    (copy / "val" / "image").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"Missing: `val` \(no folder"):
        NYUv2(copy, "val")


# Which file is wrong


def save(array: Any) -> Callable[[Path], Any]:
    return lambda path: np.save(path, array)


WRONG: list[tuple[str, Callable[[Path], Any], str]] = [
    ("label", save(np.full((24, 32), 13)), "should hold labels below 13. Found 13."),
    ("label", save(np.full((24, 32), 0.5)), "should hold whole numbers. Found 0.5."),
    ("label", save(np.full((24, 32), np.nan)), "should hold whole numbers. Found nan."),
    ("label", save(np.zeros((24, 32, 3))), r"should hold one label per pixel. Found the shape \(24, 32, 3\)."),
    ("depth", save(np.full((24, 32, 1), np.nan)), "should hold finite numbers. Found nan."),
    ("depth", save(np.full((24, 32, 1), np.inf)), "should hold finite numbers. Found inf."),
    ("depth", save(np.zeros((24, 32, 2))), "should hold one depth per pixel."),
    ("normal", save(np.full((24, 32, 3), 200.0)), "should hold vectors of length 1 or 0. Found 346"),
    ("normal", save(np.full((24, 32, 3), np.nan)), "should hold finite numbers. Found nan."),
    ("normal", save(np.zeros((24, 32))), "should hold height x width x 3 numbers."),
    ("image", save(np.full((24, 32, 3), 255.0)), "should hold colours from 0 to 1. Found 255 to 255."),
    ("image", save(np.full((24, 32, 3), np.nan)), "should hold colours from 0 to 1. Found nan to nan."),
    ("image", save(np.zeros((24, 32, 4))), r"should hold height x width x 3 colours. Found the shape \(24, 32, 4\)."),
    ("depth", lambda path: path.write_bytes(path.read_bytes()[:-7]), "Found one that cannot be read"),
    ("depth", lambda path: path.write_bytes(b""), "Found one that cannot be read"),
    ("label", lambda path: np.save(path, np.array([{}]), allow_pickle=True), "Found one that cannot be read"),
]


@pytest.mark.parametrize(("folder", "spoil", "message"), WRONG)
def test_a_wrong_file_is_named(copy: Path, folder: str, spoil: Callable[[Path], Any], message: str) -> None:
    path = copy / "train" / folder / "2.npy"
    spoil(path)
    data = NYUv2(copy)
    assert len(data[1]) == 4
    with pytest.raises(ValueError, match=f"File `{path}` .*{message}"):
        data[2]


def test_labels_of_another_size_are_refused(copy: Path) -> None:
    np.save(copy / "train" / "label" / "2.npy", np.zeros((12, 32)))
    with pytest.raises(
        ValueError, match=r"label `seg` and the image of `2.npy` in `train` of .* same size. Found 12 x 32 and 24 x 32."
    ):
        NYUv2(copy)[2]
    for folder, shape in (("image", (12, 16, 3)), ("label", (12, 16)), ("depth", (12, 16)), ("normal", (12, 16, 3))):
        np.save(copy / "train" / folder / "3.npy", np.zeros(shape))
    with pytest.raises(
        ValueError, match=r"Image `3.npy` in `train` of .* be 24 x 32 as the first one, .* Found 12 x 16."
    ):
        NYUv2(copy)[3]
    assert NYUv2(copy, resolution=(24, 32))[3]["seg"].shape == (24, 32)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_that_vanishes_in_an_epoch_is_named(copy: Path, workers: int) -> None:
    loader = DataLoader(NYUv2(copy), batch_size=2, num_workers=workers)
    (copy / "train" / "depth" / "3.npy").unlink()
    iterator = iter(loader)
    assert len(next(iterator)["image"]) == 2
    with pytest.raises(FileNotFoundError, match=r"File `.*/train/depth/3.npy` should be there"):
        next(iterator)


# Augmentation


def classes(labels: Tensor) -> set[int]:
    return set(labels.flatten().tolist())


def batches(data: Any, epoch: int, workers: int) -> list[dict[str, Tensor]]:
    data.set_epoch(epoch)
    return list(DataLoader(data, batch_size=4, num_workers=workers))


def test_views_depend_on_seed_epoch_and_index_alone(nyuv2: Path) -> None:
    data = NYUv2(nyuv2, augment=True, seed=3)
    alone = {epoch: batches(data, epoch, workers=0) for epoch in (0, 1)}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    again = NYUv2(nyuv2, augment=True, seed=3)
    again.set_epoch(1)
    for name, value in again[5].items():
        assert torch.equal(value, alone[1][1][name][1])
    assert torch.equal(torch.get_rng_state(), state)
    for expected, found in zip(alone[0], batches(data, 0, workers=2), strict=True):  # after epoch 1
        assert all(torch.equal(expected[name], found[name]) for name in expected)
    other = NYUv2(nyuv2, augment=True, seed=4)
    assert not torch.equal(alone[0][0]["image"], alone[1][0]["image"])
    assert not torch.equal(alone[0][0]["image"], batches(other, 0, workers=0)[0]["image"])


def test_random_views_are_what_they_should_be() -> None:
    views = [random_view((48, 60), (48, 60), np.random.default_rng((0, i))) for i in range(600)]
    for zoom, size in ((1.0, (48, 60)), (1.2, (40, 50)), (1.5, (32, 40))):
        those = [view for view in views if view.zoom == zoom]
        assert 0.25 < len(those) / len(views) < 0.42
        assert {(view.height, view.width) for view in those} == {size}
        assert {view.top for view in those} == set(range(48 - size[0] + 1))
        assert max(view.left for view in those) == 60 - size[1]
    assert 0.42 < np.mean([view.flip for view in views]) < 0.58


def test_a_zoom_divides_depth_and_multiplies_inverse_depth() -> None:
    depth = torch.rand(1, 30, 30) + 1
    view = View(5, 5, 20, 20, (30, 30), zoom=1.5)
    near, inverse = view.apply("depth", depth, depth_power=-1), view.apply("depth", 1 / depth, depth_power=1)
    torch.testing.assert_close(near, 1 / inverse)
    torch.testing.assert_close(near[0, 0, 0], depth[0, 5, 5] / 1.5)
    assert Cityscapes.DEPTH_POWER == 1
    assert NYUv2.DEPTH_POWER == -1


def test_a_mirrored_scene_is_a_scene(nyuv2: Path) -> None:
    """Normals of the mirrored depth are the mirrored normals: the sign of x counts."""
    scenes = Scenes("val", size=4, resolution=(96, 96))
    for i in range(4):
        item = {name: View(0, 0, 96, 96, (96, 96), flip=True).apply(name, v, -1) for name, v in scenes[i].items()}
        points = back_project(item["depth"].double())
        along_x, along_y = points[:, 1:-1, 2:] - points[:, 1:-1, :-2], points[:, 2:, 1:-1] - points[:, :-2, 1:-1]
        normals = torch.linalg.cross(along_y, along_x, dim=0)
        cosine = (normals * item["normals"][:, 1:-1, 1:-1]).sum(dim=0) / normals.norm(dim=0)
        assert cosine.nanmedian() > 0.999
        assert torch.equal(item["seg"].flip(-1), scenes[i]["seg"])


def test_labels_are_never_mixed(nyuv2: Path) -> None:
    data, plain = NYUv2(nyuv2, augment=True), NYUv2(nyuv2)
    for epoch in range(8):
        data.set_epoch(epoch)
        for i in range(len(data)):
            item, whole = data[i], plain[i]
            assert classes(item["seg"]) <= classes(whole["seg"])
            length = item["normals"].norm(dim=0)
            assert ((length - 1).abs().lt(1e-5) | (length == 0)).all()
            assert torch.equal(item["depth"][0] > 0, length > 0)
            assert item["image"].min() >= 0
            assert item["image"].max() <= 1


def test_all_labels_of_a_pixel_come_from_one_pixel(tmp_path: Path) -> None:
    """The class, the depth and the direction of a pixel all tell its place, and agree after any view."""
    place = torch.arange(24 * 32).view(24, 32)
    angle = place / 1000
    normals = torch.stack([torch.zeros_like(angle), angle.sin(), angle.cos()])
    frame = {
        "image": (place / 1000).expand(3, 24, 32),
        "seg": place % 13,
        "depth": 1.0 + place[None],
        "normals": normals,
    }
    write_frame(tmp_path, "train", 0, frame)
    data = NYUv2(tmp_path, augment=True)
    for epoch in range(10):
        data.set_epoch(epoch)
        item = data[0]
        there = torch.atan2(item["normals"][1], item["normals"][2]).mul(1000).round().long()
        assert torch.equal(there % 13, item["seg"])
        zoom = (1.0 + there) / item["depth"][0]
        assert min((zoom - z).abs().max().item() for z in (1.0, 1.2, 1.5)) < 1e-4
        assert (1000 * item["image"][0] - there).abs().max() < 33  # within a pixel


# Cityscapes


def test_cityscapes(tmp_path: Path) -> None:
    scene = Scenes(size=1, resolution=(16, 32), tasks=("seg", "depth"))[0]
    frame = {"image": scene["image"], "seg": scene["seg"].clamp(max=6), "depth": scene["depth"] / 10}
    write_frame(tmp_path, "train", 0, frame)
    item = Cityscapes(tmp_path)[0]
    assert all(torch.equal(item[name], frame[name]) for name in ("seg", "depth"))
    write_frame(tmp_path, "train", 0, {"seg": torch.full((16, 32), 7)})
    with pytest.raises(ValueError, match=r"train/label/0.npy` should hold labels below 7. Found 7."):
        Cityscapes(tmp_path)[0]
    with pytest.raises(ValueError, match=r"should hold image, seg, depth, normals only. Found"):
        write_frame(tmp_path, "train", 0, {"edges": torch.zeros(1, 16, 32)})


# PASCAL-Context


def test_pascal(pascal: Path) -> None:
    data = PASCALContext(pascal, resolution=(40, 60))  # as large as the first image
    assert len(data) == 3
    assert data.channels == {"seg": 21, "parts": 7, "normals": 3, "saliency": 1}
    item = data[0]
    labels = np.asarray(Image.open(pascal / "semseg/VOC12/2008_000002.png")).astype(np.int64)
    assert torch.equal(item["seg"], torch.from_numpy(np.where(labels == 255, -1, labels)))
    stored = np.asarray(Image.open(pascal / "normals_distill/2008_000002.png")).astype(np.float64) * 2 / 255 - 1
    expected = torch.from_numpy(stored / np.linalg.norm(stored, axis=2, keepdims=True)).movedim(2, 0)
    torch.testing.assert_close(item["normals"], expected.float())
    salient = np.asarray(Image.open(pascal / "sal_distill/2008_000002.png")) > 127
    assert torch.equal(item["saliency"][0], torch.from_numpy(salient.astype(np.float32)))
    # head, hair, torso, lower arm and upper leg of one, a foot of the other; the head of a dog is nobody's
    assert item["parts"][:8].tolist() == [[part] * 60 for part in (1, 1, 2, 4, 5, 0, 6, 0)]
    assert not item["parts"][8:].any()


def test_an_image_without_a_person_has_no_parts(pascal: Path) -> None:
    item = PASCALContext(pascal, tasks=("parts",), resolution=(32, 32))[1]
    assert torch.equal(item["parts"], torch.full((32, 32), -1))


def test_all_24_parts_are_known(tmp_path: Path, pascal: Path) -> None:
    assert len(PART_OF) == 24
    assert sorted(set(PART_OF.values())) == [1, 2, 3, 4, 5, 6]
    assert sum(label == 1 for label in PART_OF.values()) == 10
    shutil.copytree(pascal, tmp_path, dirs_exist_ok=True)
    write_parts(tmp_path / "human_parts/2008_000002.mat", (40, 60), [("person", 15, list(PART_OF)), ("person", 15, [])])
    item = PASCALContext(tmp_path, tasks=("parts",), resolution=(40, 60))[0]
    assert item["parts"][:24, 0].tolist() == list(PART_OF.values())


def test_pascal_batches_have_one_size_and_augment(pascal: Path) -> None:
    data = PASCALContext(pascal, augment=True)
    (batch,) = DataLoader(data, batch_size=3)
    assert {name: tuple(value.shape) for name, value in batch.items()} == {
        "image": (3, 3, 512, 512),
        "seg": (3, 512, 512),
        "parts": (3, 512, 512),
        "normals": (3, 3, 512, 512),
        "saliency": (3, 1, 512, 512),
    }
    assert classes(batch["seg"]) <= set(range(-1, 21))


def test_what_pascal_misses_is_listed(pascal: Path, tmp_path: Path) -> None:
    assert PASCALContext.missing(pascal, "val") == ["`ImageSets/Context/val.txt` (no such file)"]
    shutil.copytree(pascal, tmp_path, dirs_exist_ok=True)
    (tmp_path / "human_parts/2008_000003.mat").unlink()
    shutil.rmtree(tmp_path / "sal_distill")
    with pytest.raises(FileNotFoundError) as error:
        PASCALContext(tmp_path)
    assert str(error.value).endswith(
        "Missing: `human_parts` (1 of 3 files: 2008_000003.mat); `sal_distill` (no such folder)."
    )
    assert len(PASCALContext(tmp_path, tasks=("seg", "normals"))) == 3
    (tmp_path / "ImageSets/Context/val.txt").write_text("\n")
    with pytest.raises(FileNotFoundError, match=r"`ImageSets/Context/val.txt` \(no name in it\)"):
        PASCALContext(tmp_path, "val")


def test_a_wrong_file_of_pascal_is_named(pascal: Path, tmp_path: Path) -> None:
    shutil.copytree(pascal, tmp_path, dirs_exist_ok=True)
    data = PASCALContext(tmp_path)
    name = "2008_000002"
    wrong: list[tuple[str, Callable[[Path], Any], str]] = [
        (f"human_parts/{name}.mat", lambda p: write_parts(p, (40, 60), [("person", 15, ["tail"])]), "Found 'tail'"),
        (f"human_parts/{name}.mat", lambda p: p.write_bytes(b"nothing"), "should be a file of Matlab"),
        (f"sal_distill/{name}.png", lambda p: p.write_bytes(p.read_bytes()[:200]), "should be an image"),
        (f"semseg/VOC12/{name}.png", lambda p: Image.new("L", (60, 40), 21).save(p), "labels below 21. Found 21"),
        (f"semseg/VOC12/{name}.png", lambda p: Image.new("RGB", (60, 40)).save(p), "should hold one label per pixel"),
        (
            f"normals_distill/{name}.png",
            lambda p: Image.new("L", (60, 40)).save(p),
            "should hold three colours per pixel",
        ),
        (f"JPEGImages/{name}.jpg", lambda p: p.write_bytes(p.read_bytes()[:700]), "should be an image"),
    ]
    for file, spoil, message in wrong:
        spoil(tmp_path / file)
        with pytest.raises(ValueError, match=rf"File `{tmp_path / file}` .*{message}"):
            data[0]
        shutil.copy(pascal / file, tmp_path / file)
    write_parts(tmp_path / "human_parts/2008_000003.mat", (5, 6), [("person", 15, ["head"])])
    with pytest.raises(ValueError, match=r"label `parts` and the image of `2008_000003` .* Found 5 x 6 and 44 x 55."):
        data[1]


def test_a_missing_package_is_named(pascal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PASCALContext(pascal)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install 'torchsims\[vision\]'. Found: .*PIL"):
        data[0]


# The real photographs


def test_the_photographs_of_nyuv2(tmp_path: Path) -> None:
    numbers = photographs(tmp_path, "train", limit=24)
    photographs(tmp_path, "val", limit=8)
    data = NYUv2(tmp_path, "train", tasks=("seg", "depth"), augment=True)
    assert len(data) == len(numbers) == 24
    assert NYUv2.missing(tmp_path) == ["`train/normal` (no such folder)"]
    found = batches(data, epoch=2, workers=0)
    seg, depth = (torch.cat([batch[name] for batch in found]) for name in ("seg", "depth"))
    assert seg.shape == (24, 96, 128)
    assert len(classes(seg)) > 8
    assert 1 < depth.mean() < 5
    assert (depth > 0).all()
    assert len(NYUv2(tmp_path, "val", tasks=("seg",))) == 8


def test_photographs_of_every_class_are_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for split, size in (("train", 150), ("val", 100)):
            photographs(Path(folder), split, limit=size)
            data = NYUv2(folder, split, tasks=("seg", "depth"))
            assert len(data) == size
            counts = torch.zeros(14, dtype=torch.int64)
            for batch in DataLoader(data, batch_size=64):
                counts += torch.bincount(batch["seg"].flatten() + 1, minlength=14)
            assert counts.sum() == size * 96 * 128
            assert (counts > 0).all()
            assert 0.1 < counts[0] / counts.sum() < 0.3  # share of unlabelled pixels
