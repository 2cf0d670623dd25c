"""A log of impressions with its splits, in memory or in files that are read on demand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from torchsims.data.clicks._columns import moments, read_columns

Column = NDArray[Any]

COMMON = ("101", "121", "122", "124", "125", "126", "127", "128", "129", "109_14", "110_14", "127_14", "150_14")
"""The fields of Ali-CCP that describe the user, stored once for many impressions."""

OWN = ("205", "206", "207", "210", "216", "508", "509", "702", "853", "301")
"""The fields of an impression: the item, combinations of user and item, and the place it was shown."""

VALUED = ("109_14", "110_14", "127_14", "150_14", "508", "509", "702", "853")
"""The fields whose ids have a number that is not always one; its column is called ``D`` and the field."""

NUMBER = "D"
DESCRIPTION = "log.json"


@final
@dataclass(frozen=True, eq=False)
class Clicks:
    """Impressions with their features, and whether a click and a purchase followed.

    Attributes:
        click: 1 or 0, `row`.
        purchase: 1 or 0, `row`; never 1 without a click.
        own: columns of the impressions, `row`, by name.
        common: columns that many impressions share, `common row`, by name.
        index: common row of every impression; ``None`` if there are no common columns.

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


@final
@dataclass(frozen=True, eq=False)
class ClickLog:
    """A log with its splits, whose ids are codes.

    Attributes:
        splits: the impressions of ``"train"``, ``"test"`` and perhaps ``"val"``.
        codes: number of codes of each field, by name; 0 is for ids that are missing or rare in training.
        numbers: mean and standard deviation in training of each numeric column, by name.

    Example:
        >>> from torchsims.data.clicks import generate_clicks
        >>> world = generate_clicks(1100)
        >>> log = ClickLog.in_memory(world.part(slice(1000)), world.part(slice(1000, None)))
        >>> len(log.codes), len(log.numbers)
        (23, 8)
    """

    splits: Mapping[str, Clicks]
    codes: Mapping[str, int]
    numbers: Mapping[str, tuple[float, float]]

    @classmethod
    def in_memory(cls, train: Clicks, test: Clicks) -> "ClickLog":
        """Return a log in memory whose ids are small enough to be codes."""
        columns = {**train.own, **train.common}
        others = {**test.own, **test.common}
        return cls(
            {"train": train, "test": test},
            {n: int(max(c.max(), others[n].max())) + 1 for n, c in columns.items() if not n.startswith(NUMBER)},
            {n: moments(c) for n, c in columns.items() if n.startswith(NUMBER)},
        )


def open_log(folder: str | Path) -> ClickLog:
    """Return the log that :func:`torchsims.data.clicks.convert` left; columns are mapped into memory.

    Example:
        >>> open_log("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: There is no file `nowhere/log.json`.
    """
    path = Path(folder) / DESCRIPTION
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`.")
    found = json.loads(path.read_text())
    numbers = {name: (mean, sd) for name, (mean, sd) in found["numbers"].items()}
    return ClickLog({split: _open(path.parent / split) for split in found["splits"]}, found["codes"], numbers)


def _open(folder: Path) -> Clicks:
    own, common = read_columns(folder / "own"), read_columns(folder / "common")
    click, purchase = own.pop("click"), own.pop("purchase")
    return Clicks(click, purchase, own, common, own.pop("common", None))
