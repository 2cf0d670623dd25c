"""A number over two parameters, as coloured cells."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

__all__ = ["heat_maps"]

DARK = 0.45  # the brightness below which white can be read


def heat_maps(
    panels: Mapping[str, NDArray[np.float64]],
    across: tuple[str, Sequence[float]],
    up: tuple[str, Sequence[float]],
    name: str,
    *,
    low_is_good: bool = False,
    limits: tuple[float, float] | None = None,
    form: str = ".2f",
) -> Figure:
    """Return one map a panel, all with the same colours, and the number in every cell.

    Args:
        panels: `up x across`, by title; NaN where there is no number.
        across: what the horizontal axis is called, and its values.
        up: the same of the vertical axis.
        name: what the numbers are.
        low_is_good: whether green is low.
        limits: what the ends of the colours stand for; the smallest and the largest number by default.
        form: how a number is written.

    Example:
        >>> figure = heat_maps({"slow": np.eye(2), "fast": np.zeros((2, 2))}, ("x", [1, 2]), ("y", [0.5, 3]), "share")
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['1.00', '0.00', '0.00', '1.00']
    """
    size = (2.1 + max(2.0, 0.62 * len(across[1])) * len(panels), 1.6 + 0.42 * len(up[1]))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    known = np.concatenate([panel[np.isfinite(panel)] for panel in panels.values()])
    low, high = limits or ((known.min(), known.max()) if known.size else (0.0, 1.0))
    if low == high:  # no colour is better than another
        low, high = low - 0.5, high + 0.5
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        image = axis.imshow(
            panel, cmap="RdYlGn_r" if low_is_good else "RdYlGn", vmin=low, vmax=high, origin="lower", aspect="auto"
        )
        for cell in product(*map(range, panel.shape)):
            text = format(panel[cell], form) if np.isfinite(panel[cell]) else "none"
            red, green, blue, _ = image.cmap(image.norm(panel[cell]))
            dark = 0.3 * red + 0.6 * green + 0.1 * blue < DARK
            axis.text(cell[1], cell[0], text, ha="center", va="center", color="white" if dark else "black", fontsize=8)
        axis.set_xticks(range(len(across[1])), [f"{value:g}" for value in across[1]])
        axis.set_yticks(range(len(up[1])), [f"{value:g}" for value in up[1]])
        axis.set_xlabel(across[0])
        axis.set_title(title)
    axes[0].set_ylabel(up[0])
    figure.colorbar(image, ax=axes, label=name)
    return figure
