"""A figure of the trials of a study."""

from collections.abc import Sequence
from math import isfinite

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from torchsims.reporting._bars import BEFORE, PANEL
from torchsims.reporting._style import WIDTH, figure_text
from torchsims.reporting._tables import Row

SKEWED = 5.0  # ratio of the largest to the smallest value beyond which an axis is logarithmic


def trials_figure(rows: Sequence[Row]) -> Figure:
    """Return the score of every finished trial against each number that was tried: one panel per number.

    Rows have a ``score``, None where there is none; columns of texts are left out.

    Example:
        >>> figure = trials_figure([{"trial": 0, "state": "complete", "score": -1.2, "lr": 0.01}])
        >>> [axis.get_xlabel() for axis in figure.axes]
        ['lr']
    """
    found = [row for row in rows if isinstance(row["score"], float) and isfinite(row["score"])]
    tried = [name for name in (rows[0] if rows else {}) if name not in ("trial", "state", "score")]
    names = [name for name in tried if all(isinstance(row[name], int | float) for row in rows)] or ["trial"]
    figure = Figure(figsize=(WIDTH, PANEL * len(names) + 0.4), layout="constrained")
    for axis, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        x = [float(str(row[name])) for row in found]
        axis.scatter(x, [row["score"] for row in found], color=BEFORE, s=18)
        if x and min(x) > 0 and max(x) > SKEWED * min(x):
            axis.set_xscale("log")
            axis.xaxis.set_minor_formatter(NullFormatter())  # they overlap where an axis is short
            axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.set_xlabel(figure_text(name))
        axis.set_ylabel("score")
        axis.grid(alpha=0.25)
    return figure
