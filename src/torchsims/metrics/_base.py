from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric


class DenseMetric(Metric):
    """Metrics of one task over all pixels of a data set, however they are split into batches and ranks.

    The state is sums and counts and nothing else, and ``compute`` adds those of all ranks: several processes find what
    one process finds. Without a single valid pixel every metric is NaN. Shares are fractions of one.

    To write one, register its sums with :meth:`_sums`, add to them in :meth:`update`, divide in :meth:`compute`, and
    name the direction of every metric in ``directions``.
    """

    full_state_update = False
    directions: ClassVar[Mapping[str, bool]]
    """Which metrics are better when they are higher, for :func:`torchsims.metrics.delta_b`."""

    def _sums(self, name: str, size: Sequence[int] = (), dtype: torch.dtype = torch.float64) -> None:
        self.add_state(name, torch.zeros(tuple(size), dtype=dtype), dist_reduce_fx="sum")

    @abstractmethod
    def update(self, prediction: Tensor, target: Tensor) -> None:
        """Add the pixels of one batch."""

    @abstractmethod
    def compute(self) -> dict[str, Tensor]:
        """Return every metric by name, over all batches and ranks."""


def same_shape(prediction: Tensor, target: Tensor) -> None:
    """Refuse tensors that would broadcast."""
    if prediction.shape != target.shape:
        raise ValueError(
            "Parameters `prediction` and `target` should have the same shape. "
            f"Found {tuple(prediction.shape)} and {tuple(target.shape)}."
        )
