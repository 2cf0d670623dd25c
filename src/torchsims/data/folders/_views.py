"""Crops, zooms and flips that are the same for an image and all its labels."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

ZOOMS = (1.0, 1.2, 1.5)


@dataclass(frozen=True)
class View:
    """A rectangle of an image, resized.

    Attributes:
        top, left, height, width: the rectangle in pixels.
        size: height and width of the result.
        zoom: factor by which the camera seems to be nearer.
        flip: whether left and right are exchanged.
    """

    top: int
    left: int
    height: int
    width: int
    size: tuple[int, int]
    zoom: float = 1.0
    flip: bool = False

    def apply(self, name: str, value: Tensor, depth_power: int) -> Tensor:
        """Return the view of an image or of a label, `... x height x width`.

        Args:
            name: ``"image"`` or a task.
            value: image or label.
            depth_power: -1 for a depth, which is divided by the zoom; 1 for an inverse depth.
        """
        shown = self._smooth(value) if name == "image" else self._nearest(value)
        if self.flip:
            shown = shown.flip(-1)
        if name == "depth":
            return shown * self.zoom**depth_power
        if name == "normals" and self.flip:
            return shown * torch.tensor([-1.0, 1.0, 1.0]).view(3, 1, 1)
        return shown

    def _smooth(self, value: Tensor) -> Tensor:
        part = value[..., self.top : self.top + self.height, self.left : self.left + self.width]
        if part.shape[-2:] == self.size:
            return part
        shown = interpolate(part[None], self.size, mode="bilinear", align_corners=False, antialias=True)
        return shown[0].clamp(0.0, 1.0)

    def _nearest(self, value: Tensor) -> Tensor:
        """Return for each new pixel the old pixel that contains its centre: labels are not interpolated."""
        rows, columns = (
            start + ((torch.arange(new) + 0.5) * old / new).long()
            for start, old, new in zip((self.top, self.left), (self.height, self.width), self.size, strict=True)
        )
        return value[..., rows[:, None], columns]


def full_view(shape: tuple[int, int], size: tuple[int, int]) -> View:
    """Return the view of a full image of this shape."""
    return View(0, 0, *shape, size)


def random_view(shape: tuple[int, int], size: tuple[int, int], rng: np.random.Generator) -> View:
    """Return a random crop at a random zoom, flipped with probability one half."""
    zoom = float(rng.choice(ZOOMS))
    height, width = (max(1, int(side / zoom)) for side in shape)
    top, left = (int(rng.integers(0, old - new + 1)) for old, new in zip(shape, (height, width), strict=True))
    return View(top, left, height, width, size, zoom, bool(rng.random() < 0.5))
