r"""The transformation :math:`\psi` that is applied to every loss before two points are compared.

A merit function only ever sees differences :math:`\psi(a) - \psi(b)` and slopes :math:`\psi'(a)`, so a transform
provides these two. Only :class:`Log` (up to :math:`a \ln x + b`) makes the comparison independent of the
units of the losses, and :class:`FlooredLog`, whose floor is a loss itself; the others are here to be compared with it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import torch
from torch import Tensor

__all__ = ["Asinh", "FlooredLog", "Identity", "Log", "Power", "Transform"]


class Transform(ABC):
    r"""A strictly increasing function :math:`\psi` of a loss.

    To write your own, define :meth:`__call__` and :meth:`slope`; override :meth:`difference` where subtracting
    would lose precision.
    """

    positive: ClassVar[bool] = True
    """Whether :math:`\\psi` needs losses above zero."""

    needs_reference: ClassVar[bool] = False
    """Whether :meth:`at` has to be called first; losses of zero are then valid, but not as a reference."""

    @abstractmethod
    def __call__(self, losses: Tensor) -> Tensor:
        r"""Return :math:`\psi(L)`, elementwise."""

    @abstractmethod
    def slope(self, losses: Tensor) -> Tensor:
        r"""Return :math:`\psi'(L)`, elementwise."""

    def difference(self, losses: Tensor, reference: Tensor) -> Tensor:
        r"""Return :math:`\psi(L) - \psi(R)`, elementwise."""
        return self(losses) - self(reference)

    def difference_of_values(self, losses: Tensor, reference: Tensor) -> Tensor:
        """Return :meth:`difference` to the bit, for losses without a graph that are not compiled or vectorised.

        On a processor a transform may look at them, and leave out what they do not need.
        """
        return self.difference(losses, reference)

    def weigh(self, weights: Tensor, losses: Tensor) -> Tensor:
        r"""Return :math:`w \psi'(L)`, elementwise: the weights of the gradients of the losses themselves."""
        return weights * self.slope(losses)

    def at(self, reference: Tensor) -> "Transform":
        """Return the transform for losses of this size, `m`: itself, unless it :attr:`needs_reference`."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


@final
class Log(Transform):
    r""":math:`\psi(x) = a \ln x`, the only family that makes SIMS independent of the units of the losses (Theorem 2).

    Differences are formed as :math:`a \ln(L / R)`, the ratio first: a power of two cancels in the division without any
    rounding, so changing a loss by a power of two changes no bit. Only where the ratio leaves the range of the dtype is
    it :math:`a \ln L - a \ln R`. The paper uses :math:`a = 1`. The constant :math:`b` of :math:`a \ln x + b` cancels in
    every difference and is left out.

    Example:
        >>> Log().difference(torch.tensor([6.0, 6e6]), torch.tensor([3.0, 3e6]))
        tensor([0.6931, 0.6931])
    """

    def __init__(self, a: float = 1.0) -> None:
        if not a > 0:
            raise ValueError(f"Parameter `a` should be positive. Found `a = {a}`.")
        self.a = a

    def __call__(self, losses: Tensor) -> Tensor:
        return self.a * losses.log()

    def slope(self, losses: Tensor) -> Tensor:
        return losses.reciprocal() if self.a == 1 else self.a / losses

    def weigh(self, weights: Tensor, losses: Tensor) -> Tensor:
        return weights / losses if self.a == 1 else super().weigh(weights, losses)

    def difference(self, losses: Tensor, reference: Tensor) -> Tensor:
        ratio = losses / reference
        tiny = torch.finfo(ratio.dtype).tiny
        fits = (ratio >= tiny) & (ratio <= 1 / tiny)
        if ratio.requires_grad:
            ratio = losses.where(fits, 1) / reference.where(fits, 1)  # no infinity that autograd could meet
        difference = ratio.log().where(fits, losses.log() - reference.log())
        return difference if self.a == 1 else self.a * difference

    def difference_of_values(self, losses: Tensor, reference: Tensor) -> Tensor:
        ratio = losses / reference
        tiny = torch.finfo(ratio.dtype).tiny
        if self.a == 1 and ratio.is_cpu and torch.equal(ratio.clamp(tiny, 1 / tiny), ratio):
            return ratio.log()
        return self.difference(losses, reference)


@final
class FlooredLog(Transform):
    r""":math:`\psi(x) = \ln(x + \kappa R)`: a logarithm that no longer chases a loss once it is small.

    - :math:`\kappa` (``kappa``): the floor as a share of the reference, such as 0.1; above zero.
    - :math:`R` (``reference``, `m`): the first loss of every task, which :class:`~torchsims.SIMS` keeps.

    A loss far above the floor is treated as by :class:`Log`, one far below it as by the identity: losses may be zero.
    The floor has the unit of the loss, so that the units still do not matter, and a power of two changes no bit.

    Example:
        >>> psi = FlooredLog(0.5).at(torch.tensor([2.0, 2e6]))
        >>> psi.difference(torch.tensor([1.0, 1e6]), torch.tensor([0.0, 0.0]))
        tensor([0.6931, 0.6931])
    """

    needs_reference: ClassVar[bool] = True

    def __init__(self, kappa: float, reference: Tensor | float | None = None) -> None:
        if not 0 < kappa < float("inf"):
            raise ValueError(f"Parameter `kappa` should be positive and finite. Found `kappa = {kappa}`.")
        self.kappa, self.reference = kappa, reference

    def __call__(self, losses: Tensor) -> Tensor:
        return _LOG(self._above(losses))

    def slope(self, losses: Tensor) -> Tensor:
        return _LOG.slope(self._above(losses))

    def weigh(self, weights: Tensor, losses: Tensor) -> Tensor:
        return _LOG.weigh(weights, self._above(losses))

    def difference(self, losses: Tensor, reference: Tensor) -> Tensor:
        return _LOG.difference(self._above(losses), self._above(reference))

    def difference_of_values(self, losses: Tensor, reference: Tensor) -> Tensor:
        return _LOG.difference_of_values(self._above(losses), self._above(reference))

    def at(self, reference: Tensor) -> Transform:
        return FlooredLog(self.kappa, reference)

    def _above(self, losses: Tensor) -> Tensor:
        if self.reference is None:
            raise ValueError("Parameter `reference` should be given to compare losses. Found `reference = None`.")
        return losses + self.kappa * self.reference


_LOG = Log()


@final
class Identity(Transform):
    r""":math:`\psi(x) = x`: FOOPS compares the losses themselves, units included.

    Example:
        >>> Identity().difference(torch.tensor(5.0), torch.tensor(3.0))
        tensor(2.)
    """

    positive: ClassVar[bool] = False

    def __call__(self, losses: Tensor) -> Tensor:
        return losses

    def slope(self, losses: Tensor) -> Tensor:
        return torch.ones_like(losses)


@final
class Power(Transform):
    r""":math:`\psi(x) = x^a` for :math:`a > 0`: the paper tries the square and the square root.

    Example:
        >>> Power(0.5)(torch.tensor(9.0))
        tensor(3.)
    """

    def __init__(self, a: float) -> None:
        if not a > 0:
            raise ValueError(f"Parameter `a` should be positive. Found `a = {a}`.")
        self.a = a

    def __call__(self, losses: Tensor) -> Tensor:
        return losses**self.a

    def slope(self, losses: Tensor) -> Tensor:
        return self.a * losses ** (self.a - 1)


@final
class Asinh(Transform):
    r""":math:`\psi(x) = \operatorname{asinh}(x / c)`: a logarithm that is linear below :math:`c`, which has a unit.

    The paper tries 0.1 and 0.01.

    Example:
        >>> Asinh(0.1)(torch.tensor(0.0))
        tensor(0.)
    """

    positive: ClassVar[bool] = False

    def __init__(self, c: float) -> None:
        if not c > 0:
            raise ValueError(f"Parameter `c` should be positive. Found `c = {c}`.")
        self.c = c

    def __call__(self, losses: Tensor) -> Tensor:
        return (losses / self.c).asinh()

    def slope(self, losses: Tensor) -> Tensor:
        return 1 / torch.hypot(losses, torch.full_like(losses, self.c))
