"""A module whose parameters are one point of the toy problem."""

import torch
from torch import Tensor

from torchsims.problems import Toy

__all__ = ["Point"]


class Point(torch.nn.Module):
    """The point ``theta``; calling the module returns the two losses there."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.theta = torch.nn.Parameter(start.clone())

    def forward(self) -> Tensor:
        return Toy().losses(self.theta)
