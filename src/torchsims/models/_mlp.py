from collections.abc import Mapping, Sequence
from typing import final

from torch import Tensor, nn

from torchsims.models._features import Embedded, check_outputs, perceptron


@final
class MLP(nn.Module):
    """A shared perceptron for tables, and one linear head a task.

    The heads are the rows of one linear layer, which takes less time than a small layer a task.

    Args:
        outputs: how many outputs every task has, by name.
        numbers: how many numbers a row has.
        codes: how many codes each categorical feature has.
        hidden: the width of a hidden layer.
        layers: how many of them.
        embedding: the length of the embedding of a category.
        dropout: the share of hidden units left out in training.

    Example:
        >>> import torch
        >>> from torchsims.models import MLP
        >>> model = MLP({"price": 1, "kind": 3}, numbers=2, codes=(5,))
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 1, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'price': (4, 1), 'kind': (4, 3)}
    """

    def __init__(
        self,
        outputs: Mapping[str, int],
        numbers: int,
        codes: Sequence[int] = (),
        hidden: int = 256,
        layers: int = 2,
        embedding: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_outputs(outputs)
        if not layers >= 0:
            raise ValueError(f"Parameter `layers` should not be negative. Found `layers = {layers}`.")
        self._outputs = dict(outputs)
        self.features = Embedded(numbers, codes, embedding)
        self.body = perceptron(self.features.width, [hidden] * layers, dropout)
        self.heads = nn.Linear(hidden if layers else self.features.width, sum(outputs.values()))

    def forward(self, numbers: Tensor, codes: Tensor) -> dict[str, Tensor]:
        """Return the outputs of every task, `row x output`."""
        out = self.heads(self.body(self.features(numbers, codes)))
        return dict(zip(self._outputs, out.split(list(self._outputs.values()), dim=1), strict=True))
