"""A log of impressions, in memory or in files that are read as needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["COMMON", "NUMBER", "OWN", "VALUED", "Clicks"]

Column = NDArray[Any]

COMMON = ("101", "121", "122", "124", "125", "126", "127", "128", "129", "109_14", "110_14", "127_14", "150_14")
"""The fields of Ali-CCP that describe the user, and are stored once for many impressions."""

OWN = ("205", "206", "207", "210", "216", "508", "509", "702", "853", "301")
"""The fields of an impression: the item, combinations of user and item, and the place it was shown."""

VALUED = ("109_14", "110_14", "127_14", "150_14", "508", "509", "702", "853")
"""The fields whose ids come with a number that is not always one; its column is called ``D`` and the field."""

NUMBER = "D"


@final
@dataclass(frozen=True, eq=False)
class Clicks:
    """Impressions with their features, and whether a click and a purchase followed.

    Attributes:
        click: 1 or 0, `row`.
        purchase: 1 or 0, `row`; never 1 without a click.
        own: columns of the impressions, `row`, by name.
        common: columns that many impressions share, `common row`, by name.
        index: the common row of every impression; none if there are no common columns.

    Example:
        >>> users = {"101": np.array([7, 8])}
        >>> log = Clicks(np.array([0, 1, 0]), np.array([0, 1, 0]), {"205": np.arange(3)}, users, np.array([1, 0, 1]))
        >>> len(log), log.columns(["101", "205"], [0, 2]).tolist()
        (3, [[8, 0], [8, 2]])
    """

    click: Column
    purchase: Column
    own: Mapping[str, Column]
    common: Mapping[str, Column]
    index: Column | None = None

    def __len__(self) -> int:
        return len(self.click)

    def columns(self, names: Sequence[str], rows: Any) -> Column:
        """Return some columns of some rows, `row x column`."""
        shared = None if self.index is None else self.index[rows]
        parts = [self.own[name][rows] if name in self.own else self.common[name][shared] for name in names]
        return np.stack(parts, axis=1) if parts else np.zeros((len(self.click[rows]), 0), np.float32)

    def part(self, rows: slice) -> "Clicks":
        """Return a part of the impressions, without copying them."""
        index = None if self.index is None else self.index[rows]
        own = {name: column[rows] for name, column in self.own.items()}
        return Clicks(self.click[rows], self.purchase[rows], own, self.common, index)
