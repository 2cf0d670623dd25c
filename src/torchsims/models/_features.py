"""What every network for tables begins with and is built of."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

__all__ = ["Embedded", "check_outputs", "make_towers", "perceptron"]


@final
class Embedded(nn.Module):
    """Numbers, and an embedding a categorical feature, side by side.

    All features share one table, each with its own rows: one look-up a batch, however many features there are.

    Args:
        numbers: how many numbers a row has.
        codes: how many codes each categorical feature has.
        embedding: the length of an embedding.
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
            nn.init.normal_(self.table.weight, std=0.05)  # of the size that inputs of a fresh layer keep small
        starts = torch.tensor([0, *codes], dtype=torch.int64).cumsum(0)[:-1]
        self.register_buffer("offsets", starts, persistent=False)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Return features, `row x width`, of numbers, `row x number`, and codes, `row x categorical feature`."""
        if self.table is None:
            return numbers
        return torch.cat([numbers, self.table(codes + self.offsets).flatten(1)], dim=1)


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


def make_towers(width: int, tower: int, outputs: Mapping[str, int]) -> nn.ModuleList:
    """Return a tower a task, in order: names of columns may hold what names of modules may not."""
    return nn.ModuleList(
        [nn.Sequential(perceptron(width, [tower]), nn.Linear(tower, number)) for number in outputs.values()]
    )


def check_outputs(outputs: Mapping[str, int]) -> None:
    """Refuse a network without tasks, or a task without outputs."""
    if not outputs:
        raise ValueError("Parameter `outputs` should name at least one task. Found none.")
    for task, number in outputs.items():
        if not number >= 1:
            raise ValueError(f"The outputs of task `{task}` should be positive. Found {number}.")
