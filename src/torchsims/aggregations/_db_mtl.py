"""DB-MTL: dual balancing of losses and gradients."""

from collections.abc import Mapping
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.aggregations._base import Aggregation
from torchsims.spaces import Range, Space
from torchsims.transforms import Log, Transform


@final
class DBMTL(Aggregation):
    r"""Dual balancing: gradients of log losses, all as long as the longest (Lin et al., 2023).

    .. math::
        d = \sum_i \frac{\max_j \lVert \hat g_j \rVert}{\lVert \hat g_i \rVert} \hat g_i, \qquad
        \hat g_i \leftarrow \beta \hat g_i + (1 - \beta) \nabla \ln L_i

    - :math:`\hat g` (``average``, `m x n`): running means of the gradients, in the ``state_dict``. They start at the
      first gradient of every task; the authors start at zero, which shortens the first steps.
    - :math:`\beta` (``beta``): :math:`0 \le \beta < 1`; 0 takes every step's own gradients.

    The logarithm is the method's own ``transform``: neither the direction nor its length depends on units. A task
    without labels is left out and keeps its mean.

    Example:
        >>> DBMTL()(torch.tensor([[4.0, 0.0], [0.0, 1.0]]))
        tensor([4., 4.])
    """

    transform: ClassVar[Transform] = Log()
    average: Tensor

    search_space: ClassVar[Mapping[str, Space]] = {"beta": Range(0.1, 0.99, log=False)}

    def __init__(self, beta: float = 0.9) -> None:
        super().__init__()
        if not 0 <= beta < 1:
            raise ValueError(f"Parameter `beta` should be at least 0 and below 1. Found `beta = {beta}`.")
        self.beta = beta
        self._register_statistics("average")

    def combine(self, jacobian: Tensor, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        average, known = self._means(jacobian, labelled)
        norms = torch.linalg.vector_norm(known, dim=1)
        # A gradient of zero has no direction to be made longer.
        weights = (norms.max() / norms).where(norms > 0, 0)
        if self.training:
            self.average = average
        return weights @ known, weights

    def _means(self, jacobian: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the running means of all tasks, `m x n`, NaN where a task had none yet, and of those with labels."""
        average = self.average.to(jacobian)
        shape = (len(labelled), jacobian.shape[1])
        if average.numel() == 0:
            average = jacobian.new_full(shape, torch.nan)
        if average.shape != shape:
            raise ValueError(
                "The gradients should have the same shape in every step. "
                f"Found shape {shape} after {tuple(average.shape)}."
            )
        everyone = len(jacobian) == len(labelled)  # then nothing is selected, which would make the host wait
        known = average if everyone else average[labelled]
        known = jacobian.where(known[:, :1].isnan(), known).lerp_(jacobian, 1 - self.beta)
        if everyone:
            return known, known
        average = average.clone()
        average[labelled] = known
        return average, known
