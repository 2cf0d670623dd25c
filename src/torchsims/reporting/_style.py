"""Colours that most people can tell apart, texts that matplotlib does not interpret, and the legend under a figure."""

from collections.abc import Sequence
from textwrap import fill
from typing import Literal, TypeAlias

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torchsims.reporting._tables import one_line

Dashes: TypeAlias = Literal["-"] | tuple[float, Sequence[float]]
LineStyle: TypeAlias = tuple[str, Dashes]

MANY = 8  # labels; more are drawn without bands and named in small letters
WIDTH = 4.4  # inches of a figure; its ten-point letters can be read on a phone
BAR, LINK, FAINT = "#9ecae1", "#b2b2b2", "#666666"
UNKNOWN = 0.55  # grey of a pixel without a label
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito
DASHES: tuple[Dashes, ...] = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1)))
LEGEND_LETTERS = 47  # in a line of a legend, its marks included
MARK_LETTERS = 7  # the space of a mark, in letters
LONGEST_TEXT = 60  # letters of a label or a title
TITLE_LETTERS = 44  # in a line of a title
INK, PAPER = "#010101", "#fefefe"  # letters on a colour, which do not follow the page
THEME = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#b0b0b0": "var(--soft)",  # the grid of matplotlib
    BAR: "var(--bar)",
    LINK: "var(--faint)",
    FAINT: "var(--soft)",
    **{colour: f"var(--c{i})" for i, colour in enumerate(COLOURS[:-1])},
}
"""Colours of figures, and what stands for them on a page."""
SYMBOLS = {"Delta_b": r"$\Delta_b$"}

_EIGHT = np.array([to_rgb(colour) for colour in ("#f0e442", *COLOURS[:6], "#332288")])
CLASS_COLOURS = np.concatenate([_EIGHT, 0.5 + _EIGHT / 2, _EIGHT / 2])
"""Red, green and blue of the classes of a pixel, `24 x 3`: eight colours, then lighter and darker ones."""


def line_styles(labels: Sequence[str]) -> dict[str, LineStyle]:
    """Return colour and dashes per label: more than seven labels need more than colours."""
    rounds = [divmod(i, len(COLOURS)) for i in range(len(labels))]
    return {label: (COLOURS[i], DASHES[turn % len(DASHES)]) for label, (turn, i) in zip(labels, rounds, strict=True)}


def figure_text(text: str, width: int = TITLE_LETTERS) -> str:
    r"""Return a text for a figure in lines of ``width`` letters: never read as a formula, except for ``Delta_b``.

    The middle of a very long one is left out.

    Example:
        >>> figure_text("$x_{$"), figure_text("Delta_b"), figure_text("EW, depth x 100", 10)
        ('\\$x_{\\$', '$\\Delta_b$', 'EW, depth\nx 100')
    """
    return SYMBOLS.get(text, fill(shorten(text, LONGEST_TEXT), width).replace("$", r"\$"))


def shorten(text: str, letters: int) -> str:
    """Return a text on one line, without its middle if it has more than an even number of ``letters``.

    Example:
        >>> shorten("price_per_square_metre", 12)
        'price…_metre'
    """
    line, half = one_line(text), letters // 2
    return line if len(line) <= letters else f"{line[: half - 1]}…{line[-half:]}"


def add_legend(figure: Figure, handles: Sequence[Line2D], labels: Sequence[str]) -> None:
    """Put a legend under the figure, with as many columns as its longest label leaves room for."""
    size = "small" if len(handles) > MANY else "medium"
    texts = list(map(figure_text, labels))
    columns = legend_columns(texts)
    figure.legend(list(handles), texts, loc="outside lower center", ncols=columns, frameon=False, fontsize=size)


def legend_columns(labels: Sequence[str]) -> int:
    """Return how many columns a legend has; many labels are written smaller, in two columns at least."""
    longest = max(map(len, labels), default=0)
    fit = LEGEND_LETTERS // (longest + MARK_LETTERS)
    return max(2 if len(labels) > MANY else 1, min(fit, len(labels)))
