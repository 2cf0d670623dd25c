"""What methods that use TorchJD share; TorchJD itself is imported when such a method is made."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from torchsims.aggregations._base import WeightedAggregation


class TorchJDWeighting(WeightedAggregation):
    """A method whose weights a weighting of TorchJD computes; a subclass sets ``_weighting``."""

    unit_trace: ClassVar[bool] = False
    """Whether the weights do not depend on a common factor of the Gramian, see :func:`with_unit_trace`."""

    _weighting: Callable[[Tensor], Tensor]

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        return from_gramian(self._weighting, with_unit_trace(gramian) if self.unit_trace else gramian)


def from_gramian(weighting: Callable[[Tensor], Tensor], gramian: Tensor) -> Tensor:
    """Return the weights of a Gramian, `k x k`, computed on the host in double precision.

    The matrix is small and the weightings read its entries one by one, for which an accelerator is the wrong place; and
    the solvers behind some take finite differences, for which single precision is too coarse.
    """
    return weighting(gramian.detach().to("cpu", torch.float64)).to(gramian)


def with_unit_trace(gramian: Tensor) -> Tensor:
    """Return the Gramian times the power of two that brings its trace into [1/2, 1).

    For methods whose weights do not depend on a common factor, but whose weightings take very large Gramians for zero:
    a power of two is exact, so that the weights are the same to the last bit wherever these do not.
    """
    _, exponent = torch.frexp(gramian.diagonal().sum())
    return torch.ldexp(gramian, -exponent)
