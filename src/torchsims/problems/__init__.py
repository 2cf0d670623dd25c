"""Analytic problems that know their Pareto front, vectorised over runs.

Example:
    >>> import torch
    >>> from torchsims import problems
    >>> toy = problems.Toy()
    >>> toy.losses(torch.zeros(4, 3, 2)).shape  # any leading dimensions
    torch.Size([4, 3, 2])
"""

from torchsims.problems._base import Problem
from torchsims.problems._quadratics import F1, F2, F11, TwoPoints
from torchsims.problems._toy import Toy
from torchsims.problems._zdt import ZDT1, ZDT2, ZDT3

__all__ = ["F1", "F2", "F11", "ZDT1", "ZDT2", "ZDT3", "Problem", "Toy", "TwoPoints"]
