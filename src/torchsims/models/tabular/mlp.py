"""A multilayer perceptron with one linear head per task."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, final

from torch import Tensor, nn

from torchsims.models.tabular.base import TabularNetwork, perceptron
from torchsims.spaces import Choice, Range, Space


@final
class MLP(TabularNetwork):
    """A shared perceptron for tables, and one linear head per task.

    The heads are the rows of one linear layer, which is faster than one small layer per task. There are ``layers``
    hidden layers of width ``hidden``; other arguments as in :class:`~torchsims.models.tabular.base.TabularNetwork`.

    Example:
        >>> import torch
        >>> model = MLP({"price": 1, "kind": 3}, numbers=2, codes=(5,))
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 1, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'price': (4, 1), 'kind': (4, 3)}
    """

    search_space: ClassVar[Mapping[str, Space]] = {
        "hidden": Choice((128, 256, 512)),
        "layers": Choice((1, 2, 3)),
        "dropout": Range(0.0, 0.5, log=False),
    }

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
        super().__init__(outputs, numbers, codes, embedding)
        if not layers >= 0:
            raise ValueError(f"Parameter `layers` should not be negative. Found `layers = {layers}`.")
        self.body = perceptron(self.features.width, [hidden] * layers, dropout)
        self._sizes = list(outputs.values())
        self.heads = nn.Linear(hidden if layers else self.features.width, sum(self._sizes))
        self.towers = nn.ModuleList([nn.Identity() for _ in outputs])

    def represent(self, x: Tensor) -> Sequence[Tensor]:
        """Return the outputs of every task: its rows of the common linear layer."""
        return list(self.heads(self.body(x)).split(self._sizes, dim=1))
