"""The camera of the rendered rooms, from its definition."""

import torch
from torch import Tensor


def back_project(depth: Tensor) -> Tensor:
    """Return the point behind every pixel, `... x 3 x height x width`, for a depth `... x 1 x height x width`.

    X = d ((u - W/2) / f, (v - H/2) / f, 1) for the centre (u, v) of the pixel and the focal length f = 0.8 W.
    """
    height, width = depth.shape[-2:]
    x = (torch.arange(width, dtype=depth.dtype) + 0.5 - width / 2) / (0.8 * width)
    y = (torch.arange(height, dtype=depth.dtype) + 0.5 - height / 2) / (0.8 * width)
    return torch.cat([depth * x, depth * y[:, None], depth], dim=-3)
