from collections.abc import Mapping, Sequence
from typing import final

from torch import Tensor, nn

from torchsims.models._features import Embedded, check_outputs, make_towers, perceptron


@final
class SharedBottom(nn.Module):
    """One perceptron that all tasks share, and a tower a task on top of it (Caruana, 1997).

    Args:
        outputs: how many outputs every task has, by name.
        numbers: how many numbers a row has.
        codes: how many codes each categorical feature has.
        bottom: the width of the shared hidden layer.
        tower: the width of the hidden layer of a tower.
        embedding: the length of the embedding of a category.
        dropout: the share of hidden units left out in training.

    Example:
        >>> import torch
        >>> from torchsims.models import SharedBottom
        >>> model = SharedBottom({"ctr": 1, "cvr": 1}, numbers=2, codes=(5, 3))
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'ctr': (4, 1), 'cvr': (4, 1)}

    Reference:
        Caruana, Multitask Learning, Machine Learning 28, 1997.
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
        super().__init__()
        check_outputs(outputs)
        self.features = Embedded(numbers, codes, embedding)
        self.bottom = perceptron(self.features.width, [bottom], dropout)
        self.towers = make_towers(bottom, tower, outputs)
        self._tasks = tuple(outputs)

    def forward(self, numbers: Tensor, codes: Tensor) -> dict[str, Tensor]:
        """Return the outputs of every task, `row x output`."""
        shared = self.bottom(self.features(numbers, codes))
        return {task: tower(shared) for task, tower in zip(self._tasks, self.towers, strict=True)}
