"""Dense prediction on your copy of a data set."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.data import Subset

from torchsims.data import Cityscapes, NYUv2, PASCALContext
from torchsims.workloads._dense import DenseWorkload

__all__ = ["FolderWorkload"]

Reader = NYUv2 | Cityscapes | PASCALContext


class FolderWorkload(DenseWorkload):
    """A data set in a folder with the parts ``train`` and ``val``.

    ``val``, on which the field reports, is the *test* split here, looked at once. What is watched while a run trains is
    a part of ``train`` that it does not train on: nothing is ever chosen on the numbers that are reported.

    Args:
        height: of all images; 0 for what the reader does by itself. Given together with ``width``.
        width: of all images.
        validation: the share of ``train`` to validate on; 0 trains on all of it, as the paper does.
        augment: whether training sees random views.
        split_seed: decides which images are validated on, and the views. It is not the seed of a run: all runs see the
            same.
        tasks: the tasks to train; all of the data by default.
        root: the folder.

    Attributes:
        reader: of the data.
    """

    reader: ClassVar[type[Reader]]
    at_once: ClassVar[int] = 4  # the batch of the paper: large images, and large models

    def __init__(
        self,
        height: int = 0,
        width: int = 0,
        validation: float = 0.1,
        augment: bool = True,
        split_seed: int = 0,
        *,
        tasks: Sequence[str] = (),
        root: str | None = None,
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
        if self._root is None:
            raise ValueError(f"{self.reader.NAME} should be in a folder: say which with `root`. Found none.")
        missing = dict.fromkeys(
            m for part in ("train", "val") for m in self.reader.missing(self._root, part, self.tasks)
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
        if self._root is None:
            raise ValueError(f"{self.reader.NAME} should be in a folder: say which with `root`. Found none.")
        if (part, augment) not in self._readers:
            self._readers[part, augment] = self.reader(
                self._root, part, self.tasks, augment=augment, seed=self._seed, **self._size
            )
        return self._readers[part, augment]
