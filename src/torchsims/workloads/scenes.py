"""Dense prediction on rendered rooms, :class:`torchsims.data.Scenes`, without a download."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, final

from torch import Tensor

from torchsims.data import Scenes
from torchsims.data.scenes import CHANNELS
from torchsims.workloads.datasets import InMemory
from torchsims.workloads.dense import DenseWorkload

DEFAULT = ("seg", "depth", "normals")


@final
class SceneWorkload(DenseWorkload):
    """Segmentation, depth and normals of rendered rooms; also the edges of objects, if named in ``tasks``.

    The images are rendered once and kept in memory, also for the next run. They do not depend on the seed of a run.

    Args:
        images: number of training images. The validation split has a quarter as many, but at least 64, and the test
            split twice as many as that.
        resolution: height and width in pixels.
        scene_seed: seed of the data set.
        tasks: out of ``seg``, ``depth``, ``normals`` and ``edges``; all but the last by default.
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {"epochs": 8, "batch": 8, "lr": 1e-3},
        "small": {"epochs": 6, "batch": 8, "lr": 1e-3},
    }

    def __init__(
        self,
        images: int = 256,
        resolution: int = 64,
        scene_seed: int = 0,
        *,
        tasks: Sequence[str] = (),
    ) -> None:
        super().__init__(CHANNELS, tasks, DEFAULT)
        if not images >= 1:
            raise ValueError(f"Option `images` should be positive. Found `images={images}`.")
        held_out = max(64, images // 4)
        self._scenes = {
            split: Scenes(split, size, scene_seed, (resolution, resolution), self.tasks)
            for split, size in (("train", images), ("val", held_out), ("test", 2 * held_out))
        }
        self._kept: dict[str, InMemory] = {}

    def items(self, name: str) -> int:
        return len(self._scenes[name])  # nothing is rendered

    def split(self, name: str) -> InMemory:
        if name not in self._kept:
            scenes = self._scenes[name]
            columns = _render(name, scenes.size, scenes.seed, scenes.resolution, scenes.tasks)
            self._kept[name] = InMemory({field: column.clone() for field, column in columns.items()})
        return self._kept[name]


@lru_cache(maxsize=3)  # the splits of one data set: every run of a comparison takes the same
def _render(split: str, size: int, seed: int, resolution: tuple[int, int], tasks: tuple[str, ...]) -> dict[str, Tensor]:
    return Scenes(split, size, seed, resolution, tasks).batch(range(size))
