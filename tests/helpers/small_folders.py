"""Small data sets in the formats of the real ones, and the real photographs of NYUv2 in the format of its readers."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.io import savemat

from helpers.shared_data import shared
from torchsims.data import Scenes, write_frame


def write_scenes(root: Path, split: str = "train", size: int = 6, seed: int = 0) -> Scenes:
    """Write rendered rooms as NYUv2 stores its photographs."""
    scenes = Scenes(split, size=size, seed=seed, resolution=(24, 32))
    for number in range(size):
        write_frame(root, split, number, scenes[number])
    return scenes


def write_streets(root: Path, split: str = "train", size: int = 3) -> None:
    """Write rendered rooms as Cityscapes stores its photographs: seven classes, and numbers below one for the depth."""
    scenes = Scenes(split, size=size, resolution=(24, 32), tasks=("seg", "depth"))
    for number in range(size):
        frame = dict(scenes[number])
        write_frame(root, split, number, {**frame, "seg": frame["seg"] % 7, "depth": frame["depth"] / 10})


def photographs(root: Path, split: str, limit: int | None = None) -> np.ndarray[Any, Any]:
    """Expand the photographs of NYUv2 into the layout, and return their numbers in the official file."""
    folder = shared("nyuv2")
    with np.load(folder / "nyuv2_labels_96x128.npz") as labels:
        seg, depth, is_test = labels["seg13"], labels["depth8"], labels["is_test"]
    numbers = np.flatnonzero(is_test == (split == "val"))[:limit]
    with zipfile.ZipFile(folder / "nyuv2_rgb_96x128.zip") as archive:
        for place, number in enumerate(numbers):
            pixels = np.asarray(Image.open(io.BytesIO(archive.read(f"{number:04}.jpg"))))
            label = torch.from_numpy(seg[number].astype(np.int64))
            frame = {
                "image": torch.from_numpy(pixels.astype(np.float32) / 255).movedim(2, 0),
                "seg": label.where(label != 255, -1),
                "depth": torch.from_numpy(depth[number].astype(np.float32) * 10 / 255).unsqueeze(0),
            }
            write_frame(root, split, place, frame)
    return numbers


PEOPLE = [("person", 15, ["head", "hair", "torso", "llarm", "ruleg"]), ("dog", 12, ["head"]), ("person", 15, ["lfoot"])]


def structures(rows: list[dict[str, Any]], fields: tuple[str, ...]) -> np.ndarray[Any, Any]:
    """Return an array of structures as Matlab stores it: 1 x n."""
    array = np.zeros((1, len(rows)), dtype=[(field, object) for field in fields])
    for i, row in enumerate(rows):
        for field in fields:
            array[0, i][field] = row[field]
    return array


def write_parts(path: Path, size: tuple[int, int], people: list[tuple[str, int, list[str]]]) -> None:
    """Write objects and their parts: part number k of all covers row k."""
    objects, row = [], 0
    for name, index, parts in people:
        found = []
        for part in parts:
            mask = np.zeros(size, dtype=np.uint8)
            mask[row] = 1
            found.append({"part_name": part, "mask": mask})
            row += 1
        mine = structures(found, ("part_name", "mask")) if found else np.zeros((0, 0))
        whole = np.ones(size, dtype=np.uint8)
        objects.append({"class": name, "class_ind": index, "mask": whole, "parts": mine})
    anno = structures(
        [{"imname": path.stem, "objects": structures(objects, ("class", "class_ind", "mask", "parts"))}],
        ("imname", "objects"),
    )
    savemat(path, {"anno": anno})


def write_pascal(root: Path, names: tuple[str, ...] = ("2008_000002", "2008_000003", "2008_000007")) -> None:
    """Write images of different sizes with all labels; the second shows no person."""
    folders = ("JPEGImages", "semseg/VOC12", "human_parts", "normals_distill", "sal_distill", "ImageSets/Context")
    for folder in folders:
        (root / folder).mkdir(parents=True)
    (root / "ImageSets/Context/train.txt").write_text("\n".join(names) + "\n")
    for i, name in enumerate(names):
        rng, size = np.random.default_rng(i), (40 + 4 * i, 60 - 5 * i)
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(root / f"JPEGImages/{name}.jpg")
        labels = rng.integers(0, 21, size, dtype=np.uint8)
        labels[:2] = 255
        palette = Image.fromarray(labels, mode=None)
        palette.putpalette(list(range(256)) * 3)
        palette.save(root / f"semseg/VOC12/{name}.png")
        write_parts(root / f"human_parts/{name}.mat", size, PEOPLE if i != 1 else [("dog", 12, ["head"])])
        normals = rng.normal(size=(*size, 3))
        normals /= np.linalg.norm(normals, axis=2, keepdims=True)
        Image.fromarray(np.round((normals + 1) * 127.5).astype(np.uint8)).save(root / f"normals_distill/{name}.png")
        Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)).save(root / f"sal_distill/{name}.png")


def _npy(path: Path, change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> None:
    np.save(path, change(np.load(path)))


SPOILED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "label out of range": ("label", lambda p: _npy(p, lambda a: np.full_like(a, 13)), "labels below 13"),
    "another size": ("label", lambda p: _npy(p, lambda a: a[:5]), "of the same size"),
    "NaN depth": ("depth", lambda p: _npy(p, lambda a: a * np.nan), "finite numbers"),
    "truncated": ("image", lambda p: p.write_bytes(p.read_bytes()[:200]), "cannot be read"),
    "missing": ("depth", lambda p: p.unlink(), "no such file"),
}
