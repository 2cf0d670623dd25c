"""MultiMNIST: the classes of two overlapping digits in one image, :class:`torchsims.data.MultiMNIST`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from torchsims.data import MultiMNIST
from torchsims.data.digits import CHANNELS
from torchsims.metrics import Accuracy
from torchsims.models import class_loss
from torchsims.workloads.base import Workload, choose_tasks
from torchsims.workloads.task import TaskSpec


@final
class MultiMNISTWorkload(Workload):
    """The class of the digit at the top left, ``left``, and of the one at the bottom right, ``right``.

    The pairs do not depend on the seed of a run. The test split has as many pairs as there are test digits, 10 000.

    Args:
        images: number of training pairs. The validation split has a tenth as many, of digits that no training pair has.
        pairs_seed: seed of the pairs.
        tasks: out of ``left`` and ``right``; both by default.
        root: folder of the files of MNIST, or of Fashion-MNIST.
    """

    architectures: ClassVar[tuple[str, ...]] = ("lenet",)
    unit: ClassVar[str] = "images"
    at_once: ClassVar[int] = 512
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 5, "batch": 128, "lr": 3e-3, "model": "lenet"},
        "small": {"epochs": 2, "batch": 128, "lr": 3e-3, "model": "lenet", "data": "multimnist:images=4000"},
    }

    def __init__(self, images: int = 20_000, pairs_seed: int = 0, *, tasks: Sequence[str] = (), root: str = "") -> None:
        if not images >= 1:
            raise ValueError(f"Option `images` should be positive. Found `images={images}`.")
        if not pairs_seed >= 0:
            raise ValueError(f"Option `pairs_seed` should not be negative. Found `pairs_seed={pairs_seed}`.")
        self.specs = {
            task: TaskSpec(
                task, CHANNELS[task], class_loss, partial(Accuracy, CHANNELS[task]), decode=partial(torch.argmax, dim=1)
            )
            for task in choose_tasks(tasks, CHANNELS, tuple(CHANNELS))
        }
        self._sizes = {"train": images, "val": max(1, images // 10)}
        self._seed, self._root = pairs_seed, root
        self._kept: dict[str, MultiMNIST] = {}

    def check_sources(self, model: str) -> None:
        super().check_sources(model)
        root = self._folder()
        if missing := dict.fromkeys(name for part in ("train", "test") for name in MultiMNIST.missing(root, part)):
            raise ValueError(f"Folder `{root}` should hold the files of MNIST. Missing: {', '.join(missing)}.")

    def items(self, name: str) -> int:
        return self._sizes[name] if name in self._sizes else super().items(name)  # without reading the files

    def split(self, name: str) -> MultiMNIST:
        if name not in self._kept:
            self._kept[name] = MultiMNIST(self._folder(), name, self._sizes.get(name), self._seed)
        return self._kept[name]

    def model_arguments(self) -> dict[str, Any]:
        """Return height and width of the images."""
        return {"side": MultiMNIST.SIDE}

    def example_inputs(self) -> tuple[Tensor, ...]:
        return (torch.zeros(2, 1, MultiMNIST.SIDE, MultiMNIST.SIDE),)

    def data_facts(self) -> dict[str, str]:
        return super().data_facts() | {"size": f"{MultiMNIST.SIDE} x {MultiMNIST.SIDE} pixels"}

    def _folder(self) -> str:
        if not self._root:
            raise ValueError("MultiMNIST is made of files in a folder: name it with `root`. Found none.")
        return self._root
