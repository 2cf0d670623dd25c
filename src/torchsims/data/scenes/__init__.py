r"""Rooms with boxes, ellipsoids and cylinders, rendered on demand: dense prediction without a download.

Each image comes with the labels of four tasks in the conventions of NYUv2:

- ``seg``: a class per pixel, `height x width`; negative where the pixel has no label.
- ``depth``: metres along the axis of the camera, `1 x height x width`; 0 where the depth is unknown.
- ``normals``: unit vectors towards the camera, x to the right, y down, z forward, `3 x height x width`; zero where the
  depth is unknown.
- ``edges``: 1 on the outline of an object in front of something farther away, otherwise 0, `1 x height x width`.
"""

from torchsims.data.scenes._dataset import CHANNELS, Scenes
from torchsims.data.scenes._layout import CLASSES

__all__ = ["CHANNELS", "CLASSES", "Scenes"]
