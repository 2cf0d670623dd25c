"""The data set of rendered rooms."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from torchsims.data.scenes._layout import CLASSES, FIRST_PANEL, WINDOWS, draw
from torchsims.data.scenes._raycast import FIRST_THING, Hits, cast
from torchsims.data.scenes._shading import colour

CHANNELS = {"seg": len(CLASSES), "depth": 1, "normals": 3, "edges": 1}
"""Number of channels of a prediction, by task."""

SPLITS = ("train", "val", "test")
FOCAL = 0.8  # focal length over the width of the image: a view of 64 degrees
NOISE = 0.06  # width of the uniform noise of the image
SHARE_LOST = 0.01  # fraction of pixels without depth, besides all windows
JUMP = 0.1  # relative difference of depth to the next pixel at an edge
PIXELS_AT_ONCE = 2**15  # few enough for the cache of a processor


@final
class Scenes(Dataset[dict[str, Tensor]]):
    """Rendered rooms: image number ``index`` of a split and seed is always the same, bit for bit.

    It depends neither on the batch it is rendered in nor on the global random generator. Objects stand on the floor,
    lie tumbled or hang in the air; patterns, colours, the lamp and the camera differ from image to image. The focal
    length is 0.8 times the width of the image. A ``DataLoader`` renders each batch at once.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
        size: number of images.
        seed: seed of the data set, from 0 up.
        resolution: height and width in pixels.
        tasks: labels to return with the image.

    Example:
        >>> scenes = Scenes("train", size=100, resolution=(48, 64), tasks=("seg", "depth", "normals", "edges"))
        >>> {name: tuple(value.shape) for name, value in scenes[0].items()}
        {'image': (3, 48, 64), 'seg': (48, 64), 'depth': (1, 48, 64), 'normals': (3, 48, 64), 'edges': (1, 48, 64)}
        >>> batch = scenes.batch([3, 1, 4])
        >>> batch["image"].shape, torch.equal(batch["depth"][1], scenes[1]["depth"])
        (torch.Size([3, 3, 48, 64]), True)
    """

    def __init__(
        self,
        split: str = "train",
        size: int = 512,
        seed: int = 0,
        resolution: tuple[int, int] = (64, 64),
        tasks: Sequence[str] = ("seg", "depth", "normals"),
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"Parameter `split` should be one of {', '.join(SPLITS)}. Found `split = {split!r}`.")
        if not size >= 1:
            raise ValueError(f"Parameter `size` should be positive. Found `size = {size}`.")
        if not seed >= 0:
            raise ValueError(f"Parameter `seed` should not be negative. Found `seed = {seed}`.")
        if len(resolution) != 2 or not min(resolution) >= 2:
            raise ValueError(f"Parameter `resolution` should be two numbers from 2 up. Found {resolution!r}.")
        if isinstance(tasks, str) or not set(tasks) <= set(CHANNELS):
            raise ValueError(f"Parameter `tasks` should be a sequence out of {', '.join(CHANNELS)}. Found {tasks!r}.")
        self.split, self.size, self.seed, self.resolution = split, size, seed, resolution
        self.tasks = tuple(tasks)

    @property
    def channels(self) -> dict[str, int]:
        """Number of channels of a prediction, by task."""
        return {task: CHANNELS[task] for task in self.tasks}

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: value[0] for name, value in self.batch([index]).items()}

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        batch = self.batch(indices)
        return [{name: value[i] for name, value in batch.items()} for i in range(len(indices))]

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        """Return the image and the labels of several scenes, each with a leading dimension for the scene."""
        at_once = max(1, PIXELS_AT_ONCE // (self.resolution[0] * self.resolution[1]))
        parts = [self._render(indices[i : i + at_once]) for i in range(0, len(indices), at_once)]
        return {name: torch.cat([part[name] for part in parts]) for name in ("image", *self.tasks)}

    def _generator(self, index: int) -> np.random.Generator:
        if not -self.size <= index < self.size:
            raise IndexError(f"The index of a scene should be below {self.size}. Found {index}.")
        # One independent stream per triple of seed, split and index.
        return np.random.default_rng((self.seed, SPLITS.index(self.split), int(index) % self.size))

    def _render(self, indices: Sequence[int]) -> dict[str, Tensor]:
        height, width = self.resolution
        generators = [self._generator(index) for index in indices]
        layouts = [draw(rng) for rng in generators]
        chance = [rng.random((4, height, width), dtype=np.float32) for rng in generators]
        to_local, offset, material, light = (
            torch.from_numpy(np.stack(values).astype(np.float32))
            for values in zip(*((s.to_local, s.offset, s.material, s.light) for s in layouts), strict=True)
        )
        labels = torch.from_numpy(np.stack([layout.label for layout in layouts]))  # scene x surface
        random = torch.from_numpy(np.stack(chance))  # scene x 4 x height x width
        hits = cast(to_local, offset, *_rays(height, width))
        image = colour(hits, to_local, offset, material, light).view(-1, 3, height, width)
        return {
            "image": (image + NOISE * (random[:, :3] - 0.5)).clamp(0.0, 1.0),
            **_ground_truth(hits, labels, random[:, 3:], self.resolution),
        }


def _rays(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return x of every column and y of every row: the ray (x, y, 1) goes through the centre of a pixel."""
    x = (torch.arange(width) + 0.5 - width / 2) / (FOCAL * width)
    y = (torch.arange(height) + 0.5 - height / 2) / (FOCAL * width)
    return x, y


def _ground_truth(hits: Hits, labels: Tensor, lost: Tensor, resolution: tuple[int, int]) -> dict[str, Tensor]:
    depth = hits.point[2].view(-1, 1, *resolution)
    surface = hits.surface.view(-1, 1, *resolution)
    glass = (surface >= FIRST_PANEL) & (surface < FIRST_PANEL + WINDOWS)
    valid = ~glass & (lost >= SHARE_LOST)
    return {
        "seg": labels.gather(1, hits.surface).view(-1, *resolution),
        "depth": depth.where(valid, 0.0),
        "normals": torch.stack(hits.normal, dim=1).view(-1, 3, *resolution).where(valid, 0.0),
        "edges": _edges(depth, hits.solid.view(-1, 1, *resolution)).to(depth.dtype),
    }


def _edges(depth: Tensor, solid: Tensor) -> Tensor:
    """Return the pixels of objects in front of what the next pixel shows.

    Solids are convex, so they do not occlude themselves, and the room occludes nothing: a floor or a wall seen at a
    small angle has no edges, however fast its depth changes.
    """
    edges = torch.zeros_like(solid, dtype=torch.bool)
    thing = solid >= FIRST_THING
    for dim in (-1, -2):
        length = depth.shape[dim] - 1
        for here, there in ((0, 1), (1, 0)):
            near, far = depth.narrow(dim, here, length), depth.narrow(dim, there, length)
            other = solid.narrow(dim, here, length) != solid.narrow(dim, there, length)
            before = thing.narrow(dim, here, length) & other & (far > (1 + JUMP) * near)
            edges.narrow(dim, here, length).logical_or_(before)
    return edges
