"""Colours that most people can tell apart, and the legend under a figure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

__all__ = ["CLASSES", "MANY", "UNKNOWN", "WIDTH", "Look", "legend", "legend_columns", "looks"]

Dashes: TypeAlias = Literal["-"] | tuple[float, Sequence[float]]

MANY = 8  # labels; more are drawn without bands and named in small letters
WIDTH = 5.4  # inches of a figure; with ten-point letters this can still be read on a phone
UNKNOWN = 0.55  # the grey of a pixel that nobody knows
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito
DASHES: tuple[Dashes, ...] = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
MARKS = ("o", "s", "^", "D")
LEGEND_LETTERS = 58  # in a line of a legend, its marks included
MARK_LETTERS = 7  # the space of a mark, in letters


class Look(NamedTuple):
    """How a label is drawn: twelve labels need more than seven colours."""

    colour: str
    dashes: Dashes
    mark: str


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Return a look for every label, the same in every figure of the same labels."""
    rounds = [divmod(i, len(COLOURS)) for i in range(len(labels))]
    return {
        label: Look(COLOURS[i], DASHES[turn % len(DASHES)], MARKS[turn % len(MARKS)])
        for label, (turn, i) in zip(labels, rounds, strict=True)
    }


def legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Put a legend under the figure, with as many columns as its longest label leaves room for."""
    columns = legend_columns([str(handle.get_label()) for handle in handles])
    size = "small" if len(handles) > MANY else "medium"
    figure.legend(handles=list(handles), loc="outside lower center", ncols=columns, frameon=False, fontsize=size)


def legend_columns(labels: Sequence[str]) -> int:
    """Return how many columns a legend has; many labels are written smaller, in two at least.

    Example:
        >>> legend_columns(["EW", "SIMS"]), legend_columns(["STCH, mu 3, normalize yes"] * 20)
        (2, 2)
    """
    longest = max(map(len, labels), default=0)
    fit = LEGEND_LETTERS // (longest + MARK_LETTERS)
    return max(2 if len(labels) > MANY else 1, min(fit, len(labels)))


def _classes() -> npt.NDArray[np.float64]:
    """Return 24 colours of classes: eight, then eight lighter and eight darker ones."""
    eight = np.array([to_rgb(c) for c in ("#f0e442", *COLOURS[:6], "#332288")])
    return np.concatenate([eight, 0.5 + eight / 2, eight / 2])


CLASSES = _classes()
"""Red, green and blue of the classes of a pixel, `24 x 3`."""
