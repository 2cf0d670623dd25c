"""A shared bottom and one tower per task."""

from collections.abc import Mapping, Sequence
from typing import final

from torch import Tensor

from torchsims.models.tabular.base import TabularNetwork, perceptron


@final
class SharedBottom(TabularNetwork):
    """One perceptron that all tasks share, and one tower per task on top of it (Caruana, Machine Learning 28, 1997).

    The shared hidden layer has the width ``bottom``; other arguments as in
    :class:`~torchsims.models.tabular.base.TabularNetwork`.

    Example:
        >>> import torch
        >>> model = SharedBottom({"ctr": 1, "cvr": 1}, numbers=2, codes=(5, 3))
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'ctr': (4, 1), 'cvr': (4, 1)}
    """

    def __init__(
        self,
        outputs: Mapping[str, int],
        numbers: int,
        codes: Sequence[int] = (),
        bottom: int = 128,
        tower: int = 32,
        embedding: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(outputs, numbers, codes, embedding)
        self.bottom = perceptron(self.features.width, [bottom], dropout)
        self._add_towers(bottom, tower, outputs.values())

    def represent(self, x: Tensor) -> Sequence[Tensor]:
        """Return the shared representation, for every task."""
        return [self.bottom(x)] * len(self.tasks)
