"""A log with its splits, in memory or on disk."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torchsims.data.clicks._clicks import NUMBER, Clicks
from torchsims.data.clicks._codes import moments
from torchsims.data.clicks._columns import read_columns

__all__ = ["DESCRIPTION", "ClickLog", "open_log"]

DESCRIPTION = "log.json"


@final
@dataclass(frozen=True, eq=False)
class ClickLog:
    """A log with its splits, whose ids are codes.

    Attributes:
        splits: the impressions of ``"train"``, ``"test"`` and perhaps ``"val"``.
        codes: how many codes each field has, by name; 0 is for ids that are missing or rare in training.
        numbers: mean and standard deviation in training of each column of numbers, by name.

    Example:
        >>> from torchsims.data.clicks import ClickLog, generate_clicks
        >>> world = generate_clicks(1100)
        >>> log = ClickLog.of(world.part(slice(1000)), world.part(slice(1000, None)))
        >>> len(log.codes), len(log.numbers)
        (23, 8)
    """

    splits: Mapping[str, Clicks]
    codes: Mapping[str, int]
    numbers: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, train: Clicks, test: Clicks) -> "ClickLog":
        """Return a log in memory whose ids are small enough to be codes."""
        columns = {**train.own, **train.common}
        others = {**test.own, **test.common}
        return cls(
            {"train": train, "test": test},
            {n: int(max(c.max(), others[n].max())) + 1 for n, c in columns.items() if not n.startswith(NUMBER)},
            {n: moments([c]) for n, c in columns.items() if n.startswith(NUMBER)},
        )


def open_log(folder: str | Path) -> ClickLog:
    """Return the log that :func:`torchsims.data.clicks.convert` left; columns stay on disk until they are looked at.

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
