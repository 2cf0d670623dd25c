"""How numbers and dates are written in a file, and the texts of a column as values."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import date, datetime
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

MISSING = ("", "na", "n/a", "nan", "null")  # in any case; the word None may be a category
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
SPACES = " \u00a0\u202f"
THOUSANDS = {"none": "", "comma": ",", "point": ".", "space": SPACES, "apostrophe": "'\u2019"}
DATES = {
    "year": ("%Y-%m-%d", "%Y/%m/%d"),
    "day": ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y"),
    "month": ("%m/%d/%Y", "%m-%d-%Y"),
}
ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?")
TIME = re.compile(r"[T ]\d{1,2}:\d{2}.*$")


@final
@dataclass(frozen=True)
class Format:
    """How a text file is written. Parquet and Feather files say it themselves.

    Attributes:
        separator: ``comma``, ``semicolon``, ``tab`` or ``pipe``; ``auto`` for the one that the line of names has.
        encoding: ``utf-8``, with or without a byte order mark, or ``latin-1``.
        decimal: ``point`` or ``comma``.
        thousands: what separates groups of three digits: ``none``, ``comma``, ``point``, ``space`` or ``apostrophe``.
        currency: signs before or after a number that are not part of it, joined by ``+``: ``EUR+€``.
        na: texts that mean a missing value, beside an empty field, NA, N/A, NaN and null, joined by ``+``.
        date_order: what a date begins with: ``year``, ``day`` or ``month``; ``auto`` where only one is possible.

    Example:
        >>> Format(decimal="comma", thousands="point", currency="EUR").to_numbers(["1.234,5 EUR", None, "7"])
        array([1234.5,    nan,    7. ])
    """

    separator: str = "auto"
    encoding: str = "utf-8"
    decimal: str = "point"
    thousands: str = "none"
    currency: str = ""
    na: str = ""
    date_order: str = "auto"

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        "separator": ("auto", *SEPARATORS),
        "encoding": ("utf-8", "latin-1"),
        "decimal": ("point", "comma"),
        "thousands": tuple(THOUSANDS),
        "date_order": ("auto", *DATES),
    }

    def __post_init__(self) -> None:
        for name, known in self.CHOICES.items():
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"Option `{name}` should be one of {', '.join(known)}. Found `{name}={value}`.")
        if self.thousands == self.decimal:
            raise ValueError(f"Options `decimal` and `thousands` should differ. Found {self.decimal} for both.")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(entry.name for entry in fields(cls))

    @property
    def missing(self) -> list[str]:
        """The texts that mean a missing value, in lower case."""
        return [*MISSING, *(text.strip().lower() for text in self.na.split("+") if text.strip())]

    def to_numbers(self, texts: Any) -> NDArray[np.float64] | None:
        """Return texts as float64, NaN where they are ``None``; nothing if any other is not a number."""
        import pyarrow as pa
        from pyarrow import compute as pc

        plain = pc.utf8_trim_whitespace(pa.array(texts, pa.string()) if isinstance(texts, Sequence) else texts)
        if self.currency:
            signs = "|".join(re.escape(sign.strip()) for sign in self.currency.split("+") if sign.strip())
            plain = pc.replace_substring_regex(plain, rf"^([+-]?)\s*(?:{signs})\s*|\s*(?:{signs})$", r"\1")
        if self.thousands != "none":
            plain = self._without_groups(plain)
        if self.decimal == "comma":
            plain = pc.replace_substring(pc.replace_substring(plain, ".", "?"), ",", ".")  # a point is no number then
        plain = pc.replace_substring_regex(plain, r"^\+([\d.])", r"\1")  # pyarrow takes no plus
        with suppress(pa.ArrowInvalid):
            return np.array(plain.cast(pa.float64()).to_numpy(zero_copy_only=False))  # a copy, which can be written to
        return None

    def _without_groups(self, texts: Any) -> Any:
        """Remove the separators of thousands where every group has three digits; ``1,5`` stays as it is."""
        from pyarrow import compute as pc

        mark, decimal = (
            f"[{re.escape(THOUSANDS[self.thousands])}]",
            re.escape({"comma": ",", "point": "."}[self.decimal]),
        )
        grouped = pc.match_substring_regex(texts, rf"^[+-]?\d{{1,3}}(?:{mark}\d{{3}})+(?:{decimal}\d*)?$")
        return pc.if_else(grouped, pc.replace_substring_regex(texts, mark, ""), texts)

    def to_dates(self, texts: NDArray[Any]) -> NDArray[np.datetime64]:
        """Return objects as days, NaT where they are ``None``; raise :class:`ValueError` for one that is no date."""
        known = np.array([text is not None for text in texts], dtype=bool)
        unique, places = np.unique(texts[known].astype(str), return_inverse=True)
        values: list[str] = unique.tolist()
        days = [TIME.sub("", value.strip()) for value in values]
        orders = DATES if self.date_order == "auto" else {self.date_order: DATES[self.date_order]}
        found = {order: _parse(days, patterns) for order, patterns in orders.items()}
        complete = {order: parsed for order, parsed in found.items() if None not in parsed}
        if not complete:
            best = min(found.values(), key=lambda parsed: parsed.count(None))
            raise ValueError(f"{values[best.index(None)]!r}")
        first, *others = complete.values()
        if any(other != first for other in others):
            raise ValueError(f"{values[0]!r}, which may begin with the {' or the '.join(complete)}: say `date_order`")
        result = np.full(len(texts), np.datetime64("NaT"), "datetime64[D]")
        result[known] = np.array(first, "datetime64[D]")[places]
        return result


def is_iso(texts: NDArray[Any]) -> bool:
    """Return whether all known values are dates as 2026-05-31, with or without a time."""
    known = [text for text in texts if text is not None]
    return bool(known) and all(ISO.fullmatch(text.strip()) for text in known)


def _parse(days: list[str], patterns: Sequence[str]) -> list[date | None]:
    """Return days by the pattern that fits most of them; ``None`` where it does not."""

    def parse(text: str, pattern: str) -> date | None:
        try:
            return datetime.strptime(text, pattern).date()
        except ValueError:
            return None

    parsed = [[parse(text, pattern) for text in days] for pattern in patterns]
    return min(parsed, key=lambda column: column.count(None))
