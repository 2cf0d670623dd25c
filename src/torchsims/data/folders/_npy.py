"""The layout of NYUv2 and Cityscapes: ``ROOT/SPLIT/KIND/NUMBER.npy``."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from torch import Tensor

from torchsims.data._files import as_classes, as_depth, as_normals, read_npy
from torchsims.data.folders._base import DenseFolder

SOURCE = "source.json"


class NpyFolder(DenseFolder):
    """A data set with one ``.npy`` file per image and kind of label."""

    FILES: ClassVar = {  # the suffix is part of the name
        "image": ("{}/image", ""),
        "seg": ("{}/label", ""),
        "depth": ("{}/depth", ""),
        "normals": ("{}/normal", ""),
    }
    _pixels = staticmethod(read_npy)

    @property
    def source(self) -> dict[str, Any]:
        """Description stored with the folder, such as how normals were computed; empty if there is none."""
        path = self.root / SOURCE
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return found

    @classmethod
    def _list(cls, root: Path, split: str, tasks: Sequence[str]) -> list[str]:
        folders = [cls.FILES[kind][0].format(split) for kind in ("image", *tasks)]
        names = {path.name for folder in folders for path in (root / folder).glob("*.npy")}
        if not names:
            raise FileNotFoundError(f"`{split}` (no folder {', '.join(folders)} with a file)")
        return sorted(names, key=_by_number)

    def _label(self, task: str, path: Path, size: tuple[int, int]) -> Tensor:
        array = read_npy(path)
        if task == "seg":
            return as_classes(array, path, self.CHANNELS["seg"])
        return as_depth(array, path) if task == "depth" else as_normals(array, path)


@final
class NYUv2(NpyFolder):
    r"""The images and labels of NYUv2 in a folder.

    - ``image``: colours from 0 to 1, stored `height x width x 3`.
    - ``seg``: a class per pixel; negative where unlabelled.
    - ``depth``: metres; 0 where unknown.
    - ``normals``: unit vectors; zero where unknown.

    Augmentation crops a random part at a zoom of 1, 1.2 or 1.5, by which the depth is divided, and flips half of the
    images, with :math:`n_x` negated. Labels are not interpolated: each new pixel has the label of one old pixel.

    Example:
        >>> import tempfile
        >>> from torchsims.data import Scenes
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_frame(folder, "train", 0, Scenes(resolution=(48, 64))[0])
        ...     item = NYUv2(folder, "train", tasks=("seg", "depth"), augment=True)[0]
        >>> {name: tuple(value.shape) for name, value in item.items()}
        {'image': (3, 48, 64), 'seg': (48, 64), 'depth': (1, 48, 64)}
    """

    NAME = "NYUv2"
    CLASSES: ClassVar = (
        *("bed", "books", "ceiling", "chair", "floor", "furniture", "objects"),
        *("picture", "sofa", "table", "tv", "wall", "window"),
    )
    CHANNELS: ClassVar = {"seg": len(CLASSES), "depth": 1, "normals": 3}


@final
class Cityscapes(NpyFolder):
    r"""The images and labels of Cityscapes in a folder.

    - ``image``: colours from 0 to 1, stored `height x width x 3`.
    - ``seg``: a class per pixel; negative where unlabelled.
    - ``depth``: the *inverse* depth; 0 where unknown.

    Augmentation crops a random part at a zoom of 1, 1.2 or 1.5 and flips half of the images. Larger objects are nearer,
    so the inverse depth is multiplied by the zoom; the usual code divides it, as if it were a depth.

    Example:
        >>> Cityscapes.missing("nowhere", "val"), Cityscapes.CHANNELS
        (['`nowhere` (no such folder)'], {'seg': 7, 'depth': 1})
    """

    NAME = "Cityscapes"
    CLASSES: ClassVar = ("flat", "construction", "object", "nature", "sky", "human", "vehicle")
    CHANNELS: ClassVar = {"seg": len(CLASSES), "depth": 1}
    DEPTH_POWER = 1


def _by_number(name: str) -> tuple[bool, int, str]:
    """Return the key that sorts files by number; names without a number come last."""
    stem = name.removesuffix(".npy")
    return not stem.isdecimal(), int(stem) if stem.isdecimal() else 0, name


def write_frame(root: str | PathLike[str], split: str, number: int, frame: Mapping[str, Tensor]) -> None:
    """Write an image and its labels into the layout that :class:`NYUv2` and :class:`Cityscapes` read.

    A frame has an ``image`` and any of ``seg``, ``depth`` and ``normals``, as the data sets return them.

    Example:
        >>> import tempfile
        >>> from torchsims.data import Scenes
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_frame(folder, "train", 0, Scenes(size=3)[0])
        ...     len(NYUv2(folder, "train"))
        1
    """
    if unknown := sorted(set(frame) - set(NpyFolder.FILES)):
        raise ValueError(f"Parameter `frame` should hold {', '.join(NpyFolder.FILES)} only. Found {unknown}.")
    for name, value in frame.items():
        folder = Path(root) / NpyFolder.FILES[name][0].format(split)
        folder.mkdir(parents=True, exist_ok=True)
        array = value.numpy().astype(np.int16) if name == "seg" else value.movedim(0, 2).numpy().astype(np.float32)
        np.save(folder / f"{number}.npy", array)
