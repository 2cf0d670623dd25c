"""Models along a Pareto front: one coordinate per task."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from torchsims.reporting._style import COLOURS, LINK, WIDTH, add_legend, figure_text, line_styles

HEIGHT = 3.4  # inches of a panel
CLOSE = 0.06  # of a range: nearer points share a label
RING = {"marker": "o", "markersize": 15, "markerfacecolor": "none", "markeredgecolor": COLOURS[1], "linestyle": "none"}


class FrontPanel(NamedTuple):
    """Numbers of all points.

    Example:
        >>> FrontPanel("test", ["a", "b"], np.array([[0.1, 0.9], [0.4, 0.3]]), [False, True]).values.shape
        (2, 2)
    """

    title: str
    names: Sequence[str]  # of the tasks, or of their metrics
    values: NDArray[np.float64]  # `point x task`
    higher: Sequence[bool]  # whether higher is better, by task


def plot_front(panels: Sequence[FrontPanel], chosen: int) -> Figure:
    """Return one panel above the other, all points numbered from 1 and a ring around the chosen one.

    Two tasks are the two axes. More tasks stand side by side, each from its worst number at the bottom to its best one
    at the top, and a point is a line.

    Example:
        >>> panel = FrontPanel("test", ["a", "b"], np.array([[0.1, 0.9], [0.4, 0.3]]), [False, False])
        >>> [text.get_text() for text in plot_front([panel], 0).axes[0].texts]
        ['1', '2']
    """
    figure = Figure(figsize=(WIDTH, HEIGHT * len(panels) + 0.5), layout="constrained")
    two = len(panels[0].names) == 2
    for axis, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        (_draw_plane if two else _draw_lines)(axis, panel, chosen)
        axis.set_title(figure_text(panel.title), loc="left", fontsize="medium")
        axis.grid(alpha=0.25)
    ring, points = Line2D([], [], **RING), len(panels[0].values)  # type: ignore[arg-type]
    if two:
        add_legend(figure, [ring], ["chosen"])
    else:
        labels = [f"point {i + 1}" + (", chosen" if i == chosen else "") for i in range(points)]
        styles = line_styles(labels).values()
        add_legend(figure, [Line2D([], [], color=colour, linestyle=dashes) for colour, dashes in styles], labels)
    return figure


def _draw_plane(axis: Axes, panel: FrontPanel, chosen: int) -> None:
    x, y = panel.values.T
    axis.plot(x, y, color=LINK, linewidth=1.2, zorder=1)
    axis.plot(x, y, "o", color=COLOURS[0], markersize=6, zorder=2)
    axis.plot(x[chosen], y[chosen], **RING, zorder=3)  # type: ignore[arg-type]
    for group in _close_points(panel.values):
        text, place = ", ".join(str(i + 1) for i in group), panel.values[group].max(0)
        axis.annotate(
            text,
            (place[0], place[1]),
            (7, 7),
            textcoords="offset points",
            fontsize="small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},  # the line does not cross a number
            zorder=1.5,
        )
    names = [f"{figure_text(name)} {'↑' if up else '↓'}" for name, up in zip(panel.names, panel.higher, strict=True)]
    axis.set_xlabel(names[0])
    axis.set_ylabel(names[1])
    axis.margins(0.12)


def _close_points(values: NDArray[np.float64]) -> list[list[int]]:
    """Return the points that have numbers, in groups that lie too close for a label each.

    Example:
        >>> _close_points(np.array([[0.0, 1.0], [0.01, 1.0], [1.0, np.nan], [1.0, 0.0]]))
        [[0, 1], [3]]
    """
    known = np.flatnonzero(np.isfinite(values).all(1)).tolist()
    close = CLOSE * np.ptp(values[known], axis=0) if known else 0.0
    groups: list[list[int]] = []
    for i in known:
        for group in groups:
            if (abs(values[group] - values[i]) <= close).all():
                group.append(i)
                break
        else:
            groups.append([i])
    return groups


def _draw_lines(axis: Axes, panel: FrontPanel, chosen: int) -> None:
    values = np.where(panel.higher, panel.values, -panel.values)
    worst, best = np.nanmin(values, 0), np.nanmax(values, 0)
    shares = (values - worst) / np.where(best > worst, best - worst, 1.0)
    places = np.arange(len(panel.names))
    for i, (row, (colour, dashes)) in enumerate(
        zip(shares, line_styles(list(map(str, range(len(shares))))).values(), strict=True)
    ):
        axis.plot(places, row, color=colour, linestyle=dashes, linewidth=3.0 if i == chosen else 1.4)
    ends = [f"{figure_text(n, 14)}\n{a:.4g} to {b:.4g}" for n, a, b in zip(panel.names, *_raw(panel), strict=True)]
    axis.set_xticks(places, ends, fontsize="small", rotation=0 if len(ends) < 5 else 60)
    axis.set_yticks([0, 1], ["worst", "best"])


def _raw(panel: FrontPanel) -> tuple[list[float], list[float]]:
    """Return the worst and the best number of every task, as they are."""
    low, high = np.nanmin(panel.values, 0), np.nanmax(panel.values, 0)
    return np.where(panel.higher, low, high).tolist(), np.where(panel.higher, high, low).tolist()
