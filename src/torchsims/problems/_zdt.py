"""The ZDT problems of Zitzler, Deb and Thiele."""

from abc import abstractmethod
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.problems._base import Problem, non_dominated


class _ZDT(Problem):
    r"""The family of Zitzler, Deb and Thiele (2000), without its box and with positive losses.

    .. math::
        L_1 = x_1 + s, \qquad L_2 = g \cdot k(x_1, g) + s, \qquad
        g = 1 + \frac{9}{d - 1} \sum_{j > 1} x_j, \qquad x_j = \sin^2(\pi \theta_j / 2)

    The original asks for :math:`x \in [0, 1]^d`; here every :math:`\theta` is allowed, and :math:`x` is a smooth
    function of it that reaches both ends. The shift :math:`s > 0.8` keeps the losses positive. The front is where
    :math:`g = 1`.
    """

    dimension: ClassVar[int] = 30

    def __init__(self, *, shift: float = 1.0) -> None:
        if not shift > 0.8:
            raise ValueError(f"Parameter `shift` should be above 0.8. Found `shift = {shift}`.")
        self.shift = shift

    @property
    def starts(self) -> Tensor:
        first = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=torch.float64)
        rest = torch.full((len(first), self.dimension - 1), 0.5, dtype=torch.float64)
        return torch.cat([first.unsqueeze(-1), rest], -1)

    def losses(self, points: Tensor) -> Tensor:
        x = torch.sin(torch.pi / 2 * points) ** 2
        return self._losses(x[..., 0], 1 + 9 * x[..., 1:].mean(-1))

    def front(self) -> Tensor:
        first = torch.linspace(0, 1, 2001, dtype=torch.float64) ** 2  # even steps along the root at zero
        return non_dominated(self._losses(first, torch.ones_like(first)))

    def _losses(self, first: Tensor, g: Tensor) -> Tensor:
        return torch.stack([first, g * self._trade(first, g)], -1) + self.shift

    @staticmethod
    @abstractmethod
    def _trade(first: Tensor, g: Tensor) -> Tensor:
        """Return :math:`k`, elementwise."""


@final
class ZDT1(_ZDT):
    r"""A convex front: :math:`k = 1 - \sqrt{x_1 / g}`.

    Example:
        >>> ZDT1().front()[0]
        tensor([1., 2.], dtype=torch.float64)
    """

    @staticmethod
    def _trade(first: Tensor, g: Tensor) -> Tensor:
        return 1 - (first / g).sqrt()


@final
class ZDT2(_ZDT):
    r"""A concave front, whose inner points no weighted sum can reach: :math:`k = 1 - (x_1 / g)^2`.

    Example:
        >>> ZDT2().front()[-1]
        tensor([2., 1.], dtype=torch.float64)
    """

    @staticmethod
    def _trade(first: Tensor, g: Tensor) -> Tensor:
        return 1 - (first / g) ** 2


@final
class ZDT3(_ZDT):
    r"""A front in five pieces: :math:`k = 1 - \sqrt{x_1 / g} - (x_1 / g) \sin(10 \pi x_1)`.

    Example:
        >>> ZDT3().front().amin(0)
        tensor([1.0000, 0.2266], dtype=torch.float64)
    """

    @staticmethod
    def _trade(first: Tensor, g: Tensor) -> Tensor:
        return 1 - (first / g).sqrt() - first / g * torch.sin(10 * torch.pi * first)
