"""What was understood of a table: one line per column."""

import re
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from torchsims.data.tables._features import MANY, RARE, as_texts, is_missing

FEWEST = 20  # rows, below which that all values differ says nothing
SHOWN, LONGEST = 3, 24  # examples of a column, and their characters
NUMERIC = re.compile(r"\W{0,3}[A-Za-z]{0,3}\s*[+-]?\d[\d\s.,'\u2019]*\s*[^\d\s]{0,3}")
NAMES = re.compile(r"|unnamed: 0|((.*[_ .-])?(id|uuid|guid|key|index|row))", re.IGNORECASE)
CODES = re.compile(r".*(zip|plz|post(al|code)|code|fips|naics).*", re.IGNORECASE)

Role = Literal["feature", "target", "left out"]


@final
@dataclass(frozen=True)
class ColumnSummary:
    """How a column was read.

    Example:
        >>> summarize("zip", np.array(["01069", "01069", None], dtype=object), "feature").kind
        'category'
    """

    name: str
    role: Role
    kind: str  # number, date, category or class
    missing: int
    distinct: int
    examples: tuple[str, ...]
    note: str = ""

    def row(self) -> dict[str, Any]:
        """Return the summary as a row of a table."""
        return {
            "column": self.name,
            "role": self.role,
            "read as": self.kind,
            "missing": self.missing,
            "distinct": self.distinct,
            "examples": ", ".join(self.examples),
            "note": self.note,
        }


def summarize(name: str, column: NDArray[Any], role: Role, kind: str = "", note: str = "") -> ColumnSummary:
    """Return the summary of a column; by default its kind is that of its type, and the note is about its values.

    Example:
        >>> summarize("x", np.array(["1", "2", "?"], dtype=object), "feature").note
        "mostly numbers, and texts such as '?'"
    """
    missing = is_missing(column)
    known = column[~missing]
    found, counts = np.unique(as_texts(known).astype(str) if column.dtype == object else known, return_counts=True)
    values = as_texts(found).astype(str)
    examples = tuple(
        text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in values[:: -(-len(values) // SHOWN) or 1]
    )
    kind = kind or {"M": "date", "O": "category"}.get(column.dtype.kind, "number")
    if kind == "category" and not note:
        note = _note(values, counts)
    if kind == "number" and role == "feature" and CODES.fullmatch(name) and (known == np.round(known)).all():
        note = "read as numbers; codes are named in `categories`"
    return ColumnSummary(name, role, kind, int(missing.sum()), len(values), examples, note)


def is_identifier(name: str, column: NDArray[Any]) -> bool:
    """Return whether the values name the rows: texts that all differ, or whole numbers that do in a column ``id``.

    Numbers that all differ may be measurements, so that the name of their column decides; texts that look like numbers,
    as 1.250,00 EUR does, may be, too.

    Example:
        >>> is_identifier("row", np.arange(100.0)), is_identifier("day", np.arange(100.0))
        (True, False)
    """
    known = column[~is_missing(column)]
    if len(known) < FEWEST or column.dtype.kind == "M" or (column.dtype != object and not NAMES.fullmatch(name)):
        return False
    if column.dtype == object and all(looks_numeric(str(value)) for value in known):
        return False
    whole = column.dtype == object or bool((known == np.round(known)).all())
    return whole and len(set(known.tolist())) == len(known)


def looks_numeric(text: str) -> bool:
    """Return whether a text is a number, perhaps with separators, a sign or a unit.

    Example:
        >>> [looks_numeric(text) for text in ("352,415 EUR", "$ 5", "unknown", "A12")]
        [True, True, False, False]
    """
    return NUMERIC.fullmatch(text.strip()) is not None and not text.strip()[0].isalpha()


def _note(values: NDArray[Any], counts: NDArray[Any]) -> str:
    """Return what is worth knowing of a category."""
    if not len(values):
        return "no value in any row"
    texts: list[str] = values.tolist()
    numeric = [looks_numeric(text) for text in texts]
    if sum(numeric) > len(texts) / 2 and not all(numeric):
        return f"mostly numbers, and texts such as {texts[numeric.index(False)]!r}"
    if all(numeric) and any(re.search(r"[^\d.+-]", text) for text in texts):
        return "numbers with signs or separators, read as categories"
    if (frequent := int((counts >= RARE).sum())) > MANY:
        return f"{frequent} categories, hashed"
    return ""
