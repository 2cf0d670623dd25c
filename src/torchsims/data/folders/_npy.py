"""The layout of NYUv2 and Cityscapes: ``ROOT/SPLIT/KIND/NUMBER.npy``."""

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from torchsims.data._files import as_classes, as_depth, as_image, as_normals, read_npy
from torchsims.data.folders._base import DenseFolder, lacking

FOLDERS = {"image": "image", "seg": "label", "depth": "depth", "normals": "normal"}
SOURCE = "source.json"


class NpyFolder(DenseFolder):
    """A data set with one file of numpy an image and kind of label."""

    @property
    def source(self) -> dict[str, Any]:
        """What the one who wrote the folder says of it; empty if nothing. Derived normals are named here."""
        path = self.root / SOURCE
        said: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return said

    @classmethod
    def _missing(cls, root: Path, split: str, tasks: Sequence[str]) -> Iterable[str]:
        folders = [f"{split}/{FOLDERS[name]}" for name in ("image", *tasks)]
        names = _numbered({path.name for folder in folders for path in (root / folder).glob("*.npy")})
        if not names:
            yield f"`{split}` (no folder {', '.join(folders)} with a file)"
            return
        for folder in folders:
            yield from lacking(root / folder, folder, names)

    def _names(self) -> list[str]:
        return _numbered({path.name for path in (self.root / self.split / FOLDERS["image"]).glob("*.npy")})

    def _path(self, name: str, kind: str) -> Path:
        return self.root / self.split / FOLDERS[kind] / name

    def _image(self, name: str) -> Tensor:
        path = self._path(name, "image")
        return as_image(read_npy(path), path)

    def _label(self, name: str, task: str, size: tuple[int, int]) -> Tensor:
        path = self._path(name, task)
        array = read_npy(path)
        if task == "seg":
            return as_classes(array, path, self.CHANNELS["seg"])
        return as_depth(array, path) if task == "depth" else as_normals(array, path)


def _numbered(names: Iterable[str]) -> list[str]:
    """Return names of files in the order of their numbers; those without a number come last."""

    def key(name: str) -> tuple[bool, int, str]:
        stem = name.removesuffix(".npy")
        return not stem.isdecimal(), int(stem) if stem.isdecimal() else 0, name

    return sorted(names, key=key)


def write_frame(root: str | PathLike[str], split: str, number: int, frame: Mapping[str, Tensor]) -> None:
    """Write an image and its labels into the layout that :class:`NYUv2` and :class:`Cityscapes` read.

    Args:
        root: the folder of the data set.
        split: which part of it.
        number: the number of the image in the part.
        frame: ``image`` and any of ``seg``, ``depth`` and ``normals``, as the data sets return them.

    Example:
        >>> import tempfile
        >>> from torchsims.data import NYUv2, Scenes, write_frame
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number, frame in enumerate(Scenes(size=3)[i] for i in range(3)):
        ...         write_frame(folder, "train", number, frame)
        ...     len(NYUv2(folder, "train"))
        3
    """
    unknown = sorted(set(frame) - set(FOLDERS))
    if unknown:
        raise ValueError(f"Parameter `frame` should hold {', '.join(FOLDERS)} only. Found {unknown}.")
    for name, value in frame.items():
        folder = Path(root) / split / FOLDERS[name]
        folder.mkdir(parents=True, exist_ok=True)
        array = value.numpy().astype(np.int16) if name == "seg" else value.movedim(0, 2).numpy().astype(np.float32)
        np.save(folder / f"{number}.npy", array)
