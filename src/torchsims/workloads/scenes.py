"""Rendered rooms, :class:`torchsims.data.Scenes`: dense prediction without a download."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

from torchsims.data import Scenes
from torchsims.data.scenes import CHANNELS
from torchsims.workloads._base import InMemory
from torchsims.workloads._dense import DenseWorkload

__all__ = ["SceneWorkload"]

USUAL = ("seg", "depth", "normals")


@final
class SceneWorkload(DenseWorkload):
    """Segmentation, depth and normals of rendered rooms; outlines of things, ``edges``, if asked for.

    The images are rendered once and kept in memory. They do not depend on the seed of a run: seeds differ in where the
    model starts and in the order of the images.

    Args:
        images: how many to train on; a quarter as many, but 64 at least, to validate on, and twice that to test on.
        resolution: height and width in pixels.
        scene_seed: another one is another data set.
        tasks: out of ``seg``, ``depth``, ``normals`` and ``edges``; all but the last by default.
        root: none, because there is nothing to read.
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
        root: str | None = None,
    ) -> None:
        super().__init__(CHANNELS, tasks, USUAL)
        if root is not None:
            raise ValueError(f"Scenes are rendered and have no folder. Leave out `root`. Found `root = {root}`.")
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
            self._kept[name] = InMemory(scenes.batch(range(len(scenes))))
        return self._kept[name]
