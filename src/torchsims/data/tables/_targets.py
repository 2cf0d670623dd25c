"""Columns that are predicted: numbers in standard units, or classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from torchsims.data.tables._features import Floats, as_numbers, codes_of, is_missing, standard
from torchsims.data.tables._summary import looks_numeric

Kind = Literal["auto", "number", "class"]
"""Type of a target: inferred from its values, a number, or a class."""

KINDS = ("auto", "number", "class")
MANY_CLASSES = 100  # texts, beyond which it has to be said that they are classes
FEW_CLASSES, ROWS = 10, 5  # whole numbers that are classes: how many there are, and rows of each


@final
@dataclass(frozen=True, eq=False)
class Target:
    r"""A column that is predicted, a number or a class.

    A number :math:`y` is stored in standard units :math:`z = (y - \text{mean}) / \text{sd}`, so that single precision
    holds any unit; :math:`\text{sd}^2 (\hat z - z)^2` is its squared error in the unit of the table. A class is stored
    as the index of its name in ``classes``. Missing is NaN and -1.

    Attributes:
        name: name of the column.
        mean: mean of a number over the training rows; 0 for a class.
        sd: standard deviation of a number over the training rows; 1 for a class.
        classes: names of the classes; ``None`` for a number.

    Example:
        >>> price = Target.fit("price", np.array([100.0, 300.0, np.nan]), kind="number")
        >>> price.kind, price.mean, price.sd, price.encode(np.array([400.0])).tolist()
        ('number', 200.0, 100.0, [2.0])
        >>> Target.fit("sold", np.array(["yes", "no", None], dtype=object)).encode(np.array(["yes", None])).tolist()
        [1, -1]
    """

    name: str
    mean: float = 0.0
    sd: float = 1.0
    classes: Sequence[Any] | None = None

    @classmethod
    def fit(cls, name: str, column: NDArray[Any], kind: Kind = "auto") -> "Target":
        """Fit a target to the training rows.

        With ``"auto"`` text, two distinct values, and at most ten whole numbers that count from 0 or 1 without a gap,
        each in at least five rows, are classes; everything else are numbers. Text that is mostly numbers, and text with
        more than 100 distinct values, is an error unless a type is given.
        """
        if kind not in KINDS:
            raise ValueError(f"The type of target `{name}` should be one of {', '.join(KINDS)}. Found {kind!r}.")
        if column.dtype.kind == "M":
            raise ValueError(f"Target `{name}` should hold numbers or classes. Found dates.")
        known = column[~is_missing(column)]
        if kind == "number" or column.dtype.kind == "f" or _all_numbers(known):
            column = as_numbers(name, column, "Target")
            known = column[~is_missing(column)]
        elif kind == "auto":
            _check_texts(name, known)
        values = np.unique(known if known.dtype != object else known.astype(str))
        if len(values) < 2:
            found = f"only {values.tolist()[0]}" if len(values) else "none: all are missing"
            what = "have at least two classes" if kind == "class" else "take at least two values"
            raise ValueError(f"Target `{name}` should {what} in the training rows. Found {found}.")
        few = len(values) == 2 or (column.dtype != object and _counts_classes(known))
        if kind == "class" or (kind == "auto" and (column.dtype == object or few)):
            return cls(name, classes=values.tolist())
        mean, sd, _ = standard(known)
        if not 0 < sd < np.inf:
            raise ValueError(f"Target `{name}` should have a finite spread. Found values up to {abs(known).max():g}.")
        return cls(name, mean, sd)

    @property
    def kind(self) -> Literal["number", "class"]:
        """Whether a number or a class is predicted."""
        return "number" if self.classes is None else "class"

    @property
    def outputs(self) -> int:
        """Number of outputs of a network: one, or one per class if there are more than two classes."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    def encode(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return z in float32, or the indices of the classes; a class that is not in the training rows is missing."""
        if self.classes is None:
            with np.errstate(over="ignore"):
                z = ((as_numbers(self.name, column, "Target") - self.mean) / self.sd).astype(np.float32)
            if np.isinf(z).any():
                raise ValueError(f"Target `{self.name}` should be finite. Found a value too large for float32.")
            return z
        return codes_of(column, self.classes) - 1

    def decode(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return numbers in the unit of the table, or names of classes, for outputs of a network, `row x output`."""
        if self.classes is None:
            numbers: Floats = self.mean + self.sd * outputs[:, 0].astype(np.float64)
            return numbers
        found: NDArray[Any] = outputs.argmax(1) if self.outputs > 1 else (outputs[:, 0] > 0).astype(np.int64)
        return np.take(self.classes, found)

    @staticmethod
    def probabilities(outputs: NDArray[Any]) -> Floats:
        """Return the probabilities of the classes, `row x class`, for outputs of a network, `row x output`."""
        scores = outputs.astype(np.float64)
        if scores.shape[1] == 1:  # the logit of the second class
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        grown: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
        grown /= grown.sum(axis=1, keepdims=True)
        return grown


def _all_numbers(known: NDArray[Any]) -> bool:
    """Return whether objects are numbers, as nullable columns of data frames hold them; texts are none."""
    return known.dtype == object and len(known) > 0 and all(isinstance(value, Real) for value in known)


def _counts_classes(known: NDArray[Any]) -> bool:
    """Return whether a few whole numbers from 0 or 1 without a gap, each in several rows, are the labels of classes."""
    values, counts = np.unique(known, return_counts=True)
    few = len(values) <= FEW_CLASSES and values[0] in (0, 1) and counts.min() >= ROWS
    return bool(few and (values == values[0] + np.arange(len(values))).all())


def _check_texts(name: str, known: NDArray[Any]) -> None:
    """Raise if it is not plain that a target of texts has classes."""
    values: list[str] = np.unique(known.astype(str)).tolist()
    numeric = sum(map(looks_numeric, values))
    if numeric > len(values) / 2:
        if not (odd := [text for text in values if not _is_number(text)]):
            found = f"numbers written as texts, such as {values[0]!r}. Say what is meant: the type `number` or `class`."
            raise ValueError(f"Target `{name}` should hold numbers, or classes. Found {found}")
        raise ValueError(
            f"Target `{name}` should hold numbers, or classes. Found {numeric} of {len(values)} distinct texts "
            f"that look like numbers, with {', '.join(map(repr, odd[:3]))} among the texts. Say what is meant: the "
            "type `class`; numbers, converted in a data frame; or how a file writes numbers: `table:decimal=comma`, "
            "`table:thousands=comma:currency=EUR`, `table:na=unknown`."
        )
    if len(values) > MANY_CLASSES:
        raise ValueError(
            f"Target `{name}` should have at most {MANY_CLASSES} classes, unless its type is `class`. "
            f"Found {len(values)} distinct texts, such as {values[0]!r} and {values[1]!r}."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
