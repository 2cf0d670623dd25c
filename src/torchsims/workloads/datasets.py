"""Data sets that return many items at once."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

Items: TypeAlias = Sequence[int] | NDArray[np.integer[Any]]
"""Places of items in a data set."""


@runtime_checkable
class Batched(Protocol):
    """A data set that also returns many items at once, faster than one by one."""

    def __len__(self) -> int: ...

    def batch(self, items: Items) -> dict[str, Tensor]:
        """Return some items, each field with a leading dimension."""


@final
class InMemory(Dataset[dict[str, Tensor]]):
    """A data set that is kept in memory.

    Args:
        columns: every field of all items, each with a leading dimension for the item.

    Example:
        >>> data = InMemory({"x": torch.arange(6).view(3, 2), "y": torch.ones(3)})
        >>> len(data), data[2]["x"]
        (3, tensor([4, 5]))
    """

    def __init__(self, columns: Mapping[str, Tensor]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[index] for name, column in self.columns.items()}

    def batch(self, items: Items) -> dict[str, Tensor]:
        """Return some items, each field with a leading dimension."""
        rows = torch.from_numpy(np.asarray(items, dtype=np.int64))
        return {name: column.index_select(0, rows) for name, column in self.columns.items()}
