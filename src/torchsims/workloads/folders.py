"""Dense prediction on your own copy of NYUv2, Cityscapes or PASCAL-Context."""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.utils.data import Subset

from torchsims.data import Cityscapes, NYUv2, PASCALContext
from torchsims.workloads.dense import DenseWorkload
from torchsims.workloads.presets import Presets, paper_presets

Reader = NYUv2 | Cityscapes | PASCALContext


class FolderWorkload(DenseWorkload):
    """A data set in a folder with the parts ``train`` and ``val``.

    Published results are those on ``val``, so it is the *test* split here, evaluated once. The validation split is a
    part of ``train`` that is not trained on: nothing is selected by the numbers that are reported.

    Args:
        height: height of all images; 0 for the reader's default. Given together with ``width``.
        width: width of all images.
        validation: share of ``train`` that is the validation split; 0 trains on all of it, as the paper does.
        augment: whether the training images are augmented at random.
        split_seed: seed of the validation split and of the augmentation. It is not the seed of a run: all runs see the
            same data.
        tasks: the tasks to train; all by default.
        root: the folder of the data.

    Attributes:
        reader: class that reads the data.
    """

    reader: ClassVar[type[Reader]]
    at_once: ClassVar[int] = 4  # as in the paper: large images, and large models

    def __init__(
        self,
        height: int = 0,
        width: int = 0,
        validation: float = 0.1,
        augment: bool = True,
        split_seed: int = 0,
        *,
        tasks: Sequence[str] = (),
        root: str = "",
    ) -> None:
        super().__init__(self.reader.CHANNELS, tasks, tuple(self.reader.CHANNELS))
        if not 0 <= validation < 1:
            raise ValueError(f"Option `validation` should be in [0, 1). Found `validation={validation}`.")
        if (height, width) != (0, 0) and min(height, width) < 2:
            raise ValueError(
                f"Options `height` and `width` should both be given, from 2 up. Found `height={height}:width={width}`."
            )
        if not split_seed >= 0:
            raise ValueError(f"Option `split_seed` should not be negative. Found `split_seed={split_seed}`.")
        self._size: dict[str, Any] = {"resolution": (height, width)} if height else {}
        self._validation, self._augment, self._seed, self._root = validation, augment, split_seed, root
        self._readers: dict[tuple[str, bool], Reader] = {}

    def check_sources(self, model: str) -> None:
        super().check_sources(model)
        missing = dict.fromkeys(
            m for part in ("train", "val") for m in self.reader.missing(self._folder(), part, self.tasks)
        )
        if missing:
            raise ValueError(
                f"Folder `{self._root}` should hold {self.reader.NAME} with the tasks {', '.join(self.tasks)}. "
                f"Missing: {'; '.join(missing)}."
            )

    def begin_epoch(self, epoch: int) -> None:
        self._reader("train", self._augment).set_epoch(epoch)

    def split(self, name: str) -> Subset[dict[str, Tensor]]:
        if name == "test":
            whole = self._reader("val", False)
            return Subset(whole, range(len(whole)))
        items = len(self._reader("train", False))
        order = torch.randperm(items, generator=torch.Generator().manual_seed(self._seed)).tolist()
        held_out = min(max(1, round(self._validation * items)), items - 1) if self._validation else 0
        if name == "val":
            return Subset(self._reader("train", False), sorted(order[:held_out]))
        return Subset(self._reader("train", self._augment), sorted(order[held_out:]))

    def _reader(self, part: str, augment: bool) -> Reader:
        if (part, augment) not in self._readers:
            self._readers[part, augment] = self.reader(
                self._folder(), part, self.tasks, augment=augment, seed=self._seed, **self._size
            )
        return self._readers[part, augment]

    def _folder(self) -> str:
        if not self._root:
            raise ValueError(f"{self.reader.NAME} should be in a folder: name it with `root`. Found none.")
        return self._root


@final
class NYUv2Workload(FolderWorkload):
    """Segmentation, depth and normals of rooms, :class:`torchsims.data.NYUv2`."""

    reader = NYUv2
    presets: ClassVar[Presets] = paper_presets("nyuv2", epochs=100, tau=5, prox=1e-3, ratio=5)


@final
class CityscapesWorkload(FolderWorkload):
    """Segmentation and inverse depth of streets, :class:`torchsims.data.Cityscapes`."""

    reader = Cityscapes
    presets: ClassVar[Presets] = paper_presets("cityscapes", epochs=100, tau=3, prox=1e-5, ratio=1)


@final
class PASCALWorkload(FolderWorkload):
    """Segmentation, human parts, normals and saliency of photographs, :class:`torchsims.data.PASCALContext`."""

    reader = PASCALContext
    presets: ClassVar[Presets] = paper_presets("pascal", epochs=30, tau=3, prox=1e-5, ratio=1)
