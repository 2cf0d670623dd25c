"""What every network for tables is made of: embedded features, perceptrons, and one tower per task."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import final

import torch
from torch import Tensor, nn

from torchsims.models.outputs import check_outputs


@final
class Embedded(nn.Module):
    """Numbers, and one embedding per categorical feature, side by side.

    All features share one embedding table, each with its own rows: one look-up per batch, however many features there
    are.
    """

    offsets: Tensor

    def __init__(self, numbers: int, codes: Sequence[int], embedding: int) -> None:
        super().__init__()
        if not embedding >= 1:
            raise ValueError(f"Parameter `embedding` should be positive. Found `embedding = {embedding}`.")
        if not numbers + len(codes) >= 1:
            raise ValueError("A network for tables should have at least one feature. Found none.")
        self.width = numbers + embedding * len(codes)
        self.table = nn.Embedding(sum(codes), embedding) if codes else None
        if self.table is not None:
            nn.init.normal_(self.table.weight, std=0.05)  # small, as the weights of a new layer expect their inputs
        starts = list(accumulate(codes, initial=0))[:-1]
        self.register_buffer("offsets", torch.tensor(starts, dtype=torch.int64), persistent=False)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Return features, `row x width`, for numbers `row x number` and codes `row x categorical feature`."""
        if self.table is None:
            return numbers
        return torch.cat([numbers, self.table(codes + self.offsets).flatten(1)], dim=1)


class TabularNetwork(nn.Module, ABC):
    """Embedded features, a body that represents them for every task, and one tower per task.

    A subclass makes its body and calls :meth:`_add_towers` in its constructor, and defines :meth:`represent`.

    Args:
        outputs: outputs of the network, by task.
        numbers: how many numbers a row has.
        codes: how many codes each categorical feature has.
        embedding: length of the embedding of a category.
        tower: in most subclasses, the width of the hidden layer of a tower.
        dropout: in all subclasses, the share of the hidden units of the body that are dropped in training.
    """

    def __init__(self, outputs: Mapping[str, int], numbers: int, codes: Sequence[int], embedding: int) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        self.features = Embedded(numbers, codes, embedding)

    def _add_towers(self, width: int, tower: int, outputs: Iterable[int]) -> None:
        """Add one tower per task: a hidden layer of width ``tower``, and a linear one."""
        self.towers = nn.ModuleList(
            [nn.Sequential(perceptron(width, [tower]), nn.Linear(tower, number)) for number in outputs]
        )

    @abstractmethod
    def represent(self, x: Tensor) -> Sequence[Tensor]:
        """Return the inputs of the towers, `row x width`, one per task, for features x, `row x feature`."""

    def forward(self, numbers: Tensor, codes: Tensor) -> dict[str, Tensor]:
        """Return the outputs of every task, `row x output`."""
        parts = self.represent(self.features(numbers, codes))
        return {task: tower(part) for task, tower, part in zip(self.tasks, self.towers, parts, strict=True)}


def perceptron(width: int, layers: Sequence[int], dropout: float = 0.0) -> nn.Sequential:
    """Return linear layers of the given widths, each followed by a ReLU and, if any, dropout."""
    if not all(size >= 1 for size in layers):
        raise ValueError(f"The widths of layers should be positive. Found {tuple(layers)}.")
    if not 0 <= dropout < 1:
        raise ValueError(f"Parameter `dropout` should be in [0, 1). Found `dropout = {dropout}`.")
    parts: list[nn.Module] = []
    for before, after in zip([width, *layers[:-1]], layers, strict=True):
        parts += [nn.Linear(before, after), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*parts)


def mix_experts(scores: Tensor, experts: Tensor) -> Tensor:
    """Return the mean of experts, `row x expert x width`, weighted by the softmax of scores, `row x expert`."""
    return torch.einsum("re,rew->rw", scores.softmax(1), experts)
