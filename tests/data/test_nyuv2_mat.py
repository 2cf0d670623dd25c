"""The official file of NYUv2 becomes the layout of the reader; normals come from depth, and the folder says so."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from torchsims.data import NYUv2, Scenes, convert_nyuv2
from torchsims.data.folders._nyuv2_mat import normals_from_depth

IMAGES, SIZE = 5, (480, 640)
CLASS_MAP = [-1, *(i % 13 for i in range(894))]
SPLIT = {"train": [3, 0, 4], "val": [2]}


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A file as Matlab writes it, columns first, and its content as numpy would hold it."""
    rng = np.random.default_rng(0)
    content: dict[str, Any] = {
        "images": rng.integers(0, 256, (IMAGES, *SIZE, 3), dtype=np.uint8),
        "labels": rng.integers(0, 895, (IMAGES, *SIZE), dtype=np.uint16),
        "depths": rng.uniform(1, 9, (IMAGES, *SIZE)).astype(np.float32),
    }
    content["depths"][3] = 2.0 + np.arange(640) / 640  # a wall that turns away
    path = tmp_path_factory.mktemp("mat") / "nyu_depth_v2_labeled.mat"
    with h5py.File(path, "w") as file:
        file["images"] = content["images"].transpose(0, 3, 2, 1)
        file["labels"] = content["labels"].transpose(0, 2, 1)
        file["depths"] = content["depths"].transpose(0, 2, 1)
    return path, content


def test_the_official_file_becomes_a_folder(official: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, content = official
    convert_nyuv2(path, tmp_path / "full", CLASS_MAP, SPLIT, resolution=SIZE)
    for split, numbers in SPLIT.items():
        data = NYUv2(tmp_path / "full", split)
        assert len(data) == len(numbers)
        for place, number in enumerate(numbers):
            item = data[place]
            expected = torch.from_numpy(content["images"][number].astype(np.float32) / 255).movedim(2, 0)
            torch.testing.assert_close(item["image"], expected)
            labels = np.asarray(CLASS_MAP)[content["labels"][number]]
            assert torch.equal(item["seg"], torch.from_numpy(labels))
            assert torch.equal(item["depth"][0], torch.from_numpy(content["depths"][number]))
    assert not list(tmp_path.glob("*.partial"))


def test_derived_normals_are_marked_and_right_on_a_wall(official: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    convert_nyuv2(official[0], tmp_path / "small", CLASS_MAP, SPLIT)
    data = NYUv2(tmp_path / "small", "train")
    assert data.resolution == (288, 384)
    assert "derived" in data.source["normals"]
    assert data.source["split"] == SPLIT
    normals = data[0]["normals"]  # image 3, the wall
    known = normals.any(dim=0)
    assert known.float().mean() > 0.95
    assert (normals[2][known] < 0).all()  # towards the camera
    assert (normals[0][known] > 0).all()  # the right of the wall is farther
    assert normals[1][known].abs().max() < 0.2
    assert (normals.norm(dim=0)[known] - 1).abs().max() < 1e-5
    assert not data[1]["normals"].any()  # image 0 is noise, which is no surface


def test_normals_of_scenes_are_found_again() -> None:
    scenes = Scenes("val", size=8, resolution=(96, 128))
    angles = []
    for i in range(8):
        item = scenes[i]
        focal = 0.8 * 128
        found = normals_from_depth(item["depth"], (focal, focal), (64.0, 48.0), reach=1)
        known = found.any(dim=0) & item["normals"].any(dim=0)
        assert known.float().mean() > 0.3
        angles.append((found * item["normals"]).sum(dim=0)[known].clamp(-1, 1).acos().rad2deg())
    angle = torch.cat(angles)
    assert angle.median() < 0.2
    assert angle.quantile(0.9) < 5


def test_a_slanted_plane_is_exact_up_to_the_border() -> None:
    normal = torch.tensor([0.3, -0.5, -0.8], dtype=torch.float64)
    normal = normal / normal.norm()
    y, x = torch.meshgrid((torch.arange(40) + 0.5 - 20) / 60, (torch.arange(50) + 0.5 - 26) / 55, indexing="ij")
    rays = torch.stack([x, y, torch.ones_like(x)]).double()
    depth = (-2.0 / (normal.view(3, 1, 1) * rays).sum(dim=0)).unsqueeze(0)
    found = normals_from_depth(depth, (55.0, 60.0), (26.0, 20.0), reach=2)
    known = found.any(dim=0)
    assert known.float().mean() > 0.9
    torch.testing.assert_close(found[:, known], normal[:, None].expand(3, int(known.sum())), rtol=0, atol=1e-6)
    depth[0, 10, 10] = 0
    hole = normals_from_depth(depth, (55.0, 60.0), (26.0, 20.0), reach=2)
    assert not hole[:, 6:15, 6:15].any()
    assert torch.equal(hole[:, 20:], found[:, 20:])


def test_a_wrong_file_or_argument_is_named(official: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    path, out = official[0], tmp_path / "out"
    with pytest.raises(
        ValueError, match=r"`class_map` should have an entry .* Found 3 entries, and label 89\d in image 3"
    ):
        convert_nyuv2(path, out, [-1, 0, 1], SPLIT)
    assert not list(tmp_path.iterdir())
    Path(f"{out}.partial").mkdir()
    with pytest.raises(FileExistsError, match=r"Folder `.*out.partial` should not exist before the conversion"):
        convert_nyuv2(path, out, CLASS_MAP, SPLIT)
    other = tmp_path / "other"
    with pytest.raises(ValueError, match=r"Parameter `split` should hold numbers from 0 to 4. Found 5."):
        convert_nyuv2(path, other, CLASS_MAP, {"train": [0, 5], "val": [1]})
    with pytest.raises(ValueError, match=r"numbers for train and val. Found 1 for 'test'."):
        convert_nyuv2(path, other, CLASS_MAP, {"test": [0]})
    with pytest.raises(ValueError, match=r"numbers for train and val. Found 0 for 'val'."):
        convert_nyuv2(path, other, CLASS_MAP, {"val": []})
    (tmp_path / "text.mat").write_text("text")
    with pytest.raises(ValueError, match=r"text.mat` should be in the format HDF5"):
        convert_nyuv2(tmp_path / "text.mat", other, CLASS_MAP, SPLIT)
    with h5py.File(tmp_path / "half.mat", "w") as file:
        file["images"] = np.zeros(1)
    with pytest.raises(ValueError, match=r"should hold images, labels, depths. Found no `labels`."):
        convert_nyuv2(tmp_path / "half.mat", other, CLASS_MAP, SPLIT)
