"""The base class of the readers of NYUv2, Cityscapes and PASCAL-Context."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from torchsims.data._files import Array, as_image
from torchsims.data.folders._views import full_view, random_view

SHOWN = 3  # number of missing files that an error names


class DenseFolder(Dataset[dict[str, Tensor]], ABC):
    """Images and their labels in a folder, read on demand.

    Attributes:
        NAME: name of the data set.
        CLASSES: names of the classes of a pixel, by label.
        CHANNELS: number of channels of a prediction, by task.
        FILES: folder, in which {} is the split, and suffix of the files of images and of each task.
        SPLITS: names of the splits.
        RESOLUTION: default height and width of all images; None for those of the files.
        DEPTH_POWER: -1 if ``depth`` is a depth, 1 if it is an inverse depth.
    """

    NAME: ClassVar[str]
    CLASSES: ClassVar[tuple[str, ...]]
    CHANNELS: ClassVar[Mapping[str, int]]
    FILES: ClassVar[Mapping[str, tuple[str, str]]]
    SPLITS: ClassVar[tuple[str, ...]] = ("train", "val")
    RESOLUTION: ClassVar[tuple[int, int] | None] = None
    DEPTH_POWER: ClassVar[int] = -1

    def __init__(
        self,
        root: str | PathLike[str],
        split: str = "train",
        tasks: Sequence[str] | None = None,
        augment: bool = False,
        seed: int = 0,
        resolution: tuple[int, int] | None = None,
    ) -> None:
        """Read the names of the images of a folder.

        Args:
            root: folder of the data set.
            split: ``"train"`` or ``"val"``.
            tasks: labels to return with the image; all by default. Only their files need to be there.
            augment: whether to augment; random views depend on ``seed``, epoch and index alone, see :meth:`set_epoch`.
            seed: seed of the augmentation, from 0 up.
            resolution: height and width of all images; ``RESOLUTION``, or those of the files, by default.
        """
        resolution = self.RESOLUTION if resolution is None else resolution
        if not seed >= 0:
            raise ValueError(f"Parameter `seed` should not be negative. Found `seed = {seed}`.")
        if resolution is not None and (len(resolution) != 2 or not min(resolution) >= 2):
            raise ValueError(f"Parameter `resolution` should be two numbers from 2 up. Found {resolution!r}.")
        self.root, self.split, self.tasks = Path(root), split, self._tasks(tasks)
        self.augment, self.seed, self.epoch = augment, seed, 0
        if missing := self.missing(root, split, self.tasks):
            raise FileNotFoundError(
                f"Folder `{root}` should hold the split `{split}` of {self.NAME} with the tasks "
                f"{', '.join(self.tasks)}. Missing: {'; '.join(missing)}."
            )
        self.names = self._list(self.root, split, self.tasks)
        self._resizes = resolution is not None
        height, width = self._size(self._image(self.names[0])) if resolution is None else resolution
        self.resolution = (height, width)

    @classmethod
    def missing(cls, root: str | PathLike[str], split: str = "train", tasks: Sequence[str] | None = None) -> list[str]:
        """Return what a folder lacks to be this data set, one entry per subfolder; empty if it lacks nothing."""
        if split not in cls.SPLITS:
            raise ValueError(f"Parameter `split` should be one of {', '.join(cls.SPLITS)}. Found `split = {split!r}`.")
        root, tasks = Path(root), cls._tasks(tasks)
        if not root.is_dir():
            return [f"`{root}` (no such folder)"]
        try:
            names = cls._list(root, split, tasks)
        except FileNotFoundError as error:
            return [str(error)]
        places = [(cls.FILES[kind][0].format(split), cls.FILES[kind][1]) for kind in ("image", *tasks)]
        found = [_missing_files(root / folder, folder, [name + suffix for name in names]) for folder, suffix in places]
        return [entry for entry in found if entry]

    @property
    def channels(self) -> dict[str, int]:
        """Number of channels of a prediction, by task."""
        return {task: self.CHANNELS[task] for task in self.tasks}

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; call this before iterating over a loader.

        The view of an image depends on (seed, epoch, index) alone, so a resumed run sees the views of an uninterrupted
        run. Workers of a ``DataLoader`` copy the epoch when they start, once per epoch; with
        ``persistent_workers=True`` they would stay in their first epoch.
        """
        if not epoch >= 0:
            raise ValueError(f"Parameter `epoch` should not be negative. Found `epoch = {epoch}`.")
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"The index of an image should be below {len(self)}. Found {index}.")
        index = int(index) % len(self)
        item = self._read(self.names[index])
        shape = self._size(item["image"])
        if shape != self.resolution and not self._resizes:
            raise ValueError(
                f"Image `{self.names[index]}` in `{self.split}` of `{self.root}` should be {_by(self.resolution)} as "
                f"the first one, unless `resolution` is given. Found {_by(shape)}."
            )
        view = full_view(shape, self.resolution)
        if self.augment:
            view = random_view(shape, self.resolution, np.random.default_rng((self.seed, self.epoch, index)))
        return {name: view.apply(name, value, self.DEPTH_POWER) for name, value in item.items()}

    def _path(self, name: str, kind: str) -> Path:
        folder, suffix = self.FILES[kind]
        return self.root / folder.format(self.split) / (name + suffix)

    def _image(self, name: str) -> Tensor:
        path = self._path(name, "image")
        return as_image(self._pixels(path), path)

    def _read(self, name: str) -> dict[str, Tensor]:
        """Return the image and its labels before augmentation."""
        item = {"image": self._image(name)}
        for task in self.tasks:
            item[task] = self._label(task, self._path(name, task), self._size(item["image"]))
            if self._size(item[task]) != self._size(item["image"]):
                raise ValueError(
                    f"The label `{task}` and the image of `{name}` in `{self.split}` of `{self.root}` should be of the "
                    f"same size. Found {_by(self._size(item[task]))} and {_by(self._size(item['image']))}."
                )
        return item

    @staticmethod
    def _size(value: Tensor) -> tuple[int, int]:
        return value.shape[-2], value.shape[-1]

    @classmethod
    def _tasks(cls, tasks: Sequence[str] | None) -> tuple[str, ...]:
        if tasks is None:
            return tuple(cls.CHANNELS)
        if isinstance(tasks, str) or not tasks or not set(tasks) <= set(cls.CHANNELS):
            known = ", ".join(cls.CHANNELS)
            raise ValueError(f"Parameter `tasks` should be a sequence out of {known}. Found {tasks!r}.")
        return tuple(tasks)

    @classmethod
    @abstractmethod
    def _list(cls, root: Path, split: str, tasks: Sequence[str]) -> list[str]:
        """Return the names of all images, in order; if there is none, a `FileNotFoundError` says what is missing."""

    @staticmethod
    @abstractmethod
    def _pixels(path: Path) -> Array:
        """Read the file of an image."""

    @abstractmethod
    def _label(self, task: str, path: Path, size: tuple[int, int]) -> Tensor:
        """Read a label of an image of this size."""


def _missing_files(folder: Path, shown: str, wanted: Sequence[str]) -> str:
    """Return an entry, in which the folder is called ``shown``, if it lacks some of the files; empty if it does not."""
    if not folder.is_dir():
        return f"`{shown}` (no such folder)"
    present = {path.name for path in folder.iterdir()}
    missing = [name for name in wanted if name not in present]
    dots = ", ..." if len(missing) > SHOWN else ""
    found = f"`{shown}` ({len(missing)} of {len(wanted)} files: {', '.join(missing[:SHOWN])}{dots})"
    return found if missing else ""


def _by(size: tuple[int, ...]) -> str:
    return " x ".join(str(side) for side in size)
