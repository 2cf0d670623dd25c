"""What part of an image is shown, how large, and whether mirrored: the same for an image and all of its labels."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

ZOOMS = (1.0, 1.2, 1.5)


@dataclass(frozen=True)
class View:
    """A rectangle of an image, brought to a height and width.

    Attributes:
        top, left, height, width: the rectangle.
        size: height and width of what is shown.
        zoom: how much nearer the camera seems to stand.
        flip: whether left and right are exchanged.
    """

    top: int
    left: int
    height: int
    width: int
    size: tuple[int, int]
    zoom: float = 1.0
    flip: bool = False

    def show(self, name: str, value: Tensor, depth_power: int) -> Tensor:
        """Return the view of an image or of a label, `... x height x width`.

        Args:
            name: ``"image"`` or a task.
            value: the whole image or label.
            depth_power: -1 for depth, which a zoom divides, 1 for inverse depth, which it multiplies.
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
        """Return the pixel in which the middle of each new pixel lies: labels do not mix."""
        rows, columns = (
            start + ((torch.arange(new) + 0.5) * old / new).long()
            for start, old, new in zip((self.top, self.left), (self.height, self.width), self.size, strict=True)
        )
        return value[..., rows[:, None], columns]


def whole_view(shape: tuple[int, int], size: tuple[int, int]) -> View:
    """Return the view of a whole image of this shape."""
    return View(0, 0, *shape, size)


def random_view(shape: tuple[int, int], size: tuple[int, int], rng: np.random.Generator) -> View:
    """Return a random zoom to a random place, and mirror every second view."""
    zoom = float(rng.choice(ZOOMS))
    height, width = (max(1, int(side / zoom)) for side in shape)
    top, left = (int(rng.integers(0, old - new + 1)) for old, new in zip(shape, (height, width), strict=True))
    return View(top, left, height, width, size, zoom, bool(rng.random() < 0.5))
