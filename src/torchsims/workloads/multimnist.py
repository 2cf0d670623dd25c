"""Two overlapping digits in one image, :class:`torchsims.data.MultiMNIST`: which are they?"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from torch import Tensor, nn

from torchsims._specs import choose, convert, parameters, split_spec
from torchsims.data import MultiMNIST
from torchsims.data.digits import CHANNELS
from torchsims.losses import TaskLosses
from torchsims.metrics import Accuracy, TaskMetric
from torchsims.models import LeNet, SeparateLeNets, table_losses
from torchsims.workloads._base import Batch, Batched, Workload

__all__ = ["MultiMNISTWorkload"]


@final
class _Pairs(Batched):
    """Pairs that are kept as bytes."""

    at_once = 512

    def __init__(self, pairs: MultiMNIST) -> None:
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        return self._pairs.batch(items)


@final
class MultiMNISTWorkload(Workload):
    """The classes of a digit at the top left, ``left``, and of one at the bottom right, ``right``.

    The pairs do not depend on the seed of a run. They are tested on as many pairs as there are test digits, 10 000.

    Args:
        images: how many pairs to train on; a tenth as many, of digits that no pair of training has, to validate on.
        pairs_seed: another one is other pairs.
        tasks: out of ``left`` and ``right``; both by default.
        root: the folder of the files of MNIST, or of Fashion-MNIST.
    """

    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {"lenet": LeNet, "stl": SeparateLeNets}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 5, "batch": 128, "lr": 3e-3, "model": "lenet"},
        "small": {"epochs": 2, "batch": 128, "lr": 3e-3, "model": "lenet", "data": "multimnist:images=4000"},
    }

    def __init__(
        self,
        images: int = 20_000,
        pairs_seed: int = 0,
        *,
        tasks: Sequence[str] = (),
        root: str | None = None,
    ) -> None:
        for task in tasks:
            choose("task", task, CHANNELS)
        if len(set(tasks)) < len(tasks):
            raise ValueError(f"Parameter `tasks` should hold distinct names. Found `tasks = {','.join(tasks)}`.")
        if not images >= 1:
            raise ValueError(f"Option `images` should be positive. Found `images={images}`.")
        if not pairs_seed >= 0:
            raise ValueError(f"Option `pairs_seed` should not be negative. Found `pairs_seed={pairs_seed}`.")
        self.tasks = tuple(tasks or CHANNELS)
        self._sizes = {"train": images, "val": max(1, images // 10)}
        self._seed, self._root = pairs_seed, root
        self._kept: dict[str, _Pairs] = {}

    def check_sources(self, model: str) -> None:
        root = self._folder()
        if missing := dict.fromkeys(name for part in ("train", "test") for name in MultiMNIST.missing(root, part)):
            raise ValueError(f"Folder `{root}` should hold the files of MNIST. Missing: {', '.join(missing)}.")

    def items(self, name: str) -> int:
        return self._sizes[name] if name in self._sizes else super().items(name)  # nothing is read

    def split(self, name: str) -> Batched:
        if name not in self._kept:
            self._kept[name] = _Pairs(MultiMNIST(self._folder(), name, self._sizes.get(name), self._seed))
        return self._kept[name]

    def model(self, text: str) -> nn.Module:
        name, options = split_spec(text)
        kind: Any = self.architectures[choose("model", name, self.architectures)]
        outputs = {task: CHANNELS[task] for task in self.tasks}
        network: nn.Module = kind(outputs, MultiMNIST.SIDE, **convert(f"model `{name}`", options, parameters(kind)))
        return network

    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        predictions: dict[str, Tensor] = model(batch["image"])
        return predictions

    def losses(self, predictions: Mapping[str, Tensor], batch: Batch) -> TaskLosses:
        return table_losses(predictions, batch, {})

    def metrics(self) -> dict[str, TaskMetric]:
        return {task: Accuracy(CHANNELS[task]) for task in self.tasks}

    def _folder(self) -> str:
        if self._root is None:
            raise ValueError("MultiMNIST is made of files in a folder: say which with `root`. Found none.")
        return self._root
