"""Images, labels and predictions as pictures."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imsave

from torchsims.reporting._style import CLASS_COLOURS, UNKNOWN, figure_text
from torchsims.training.run import Run, Samples

Array: TypeAlias = npt.NDArray[Any]
Kind: TypeAlias = Literal["classes", "distances", "directions", "outlines"]
CELL = 1.15  # inches of the width of a picture
UPRIGHT = np.array([1.0, -1.0, -1.0]).reshape(3, 1, 1)  # y up and z to the camera, as pictures of normals have it
LETTERS = 13  # in a line of a label


def predictions(runs: Sequence[Run], sample: int = 0) -> Figure:
    """Return an image and its labels, and under them what the first run of every label predicts.

    Tasks are drawn by what their labels are: classes in colours, distances from dark (near) to bright (far), directions
    as red, green and blue, outlines in grey. Pixels without a label are grey in the labels.

    Samples are arrays of some test images: ``"image"`` is `n x 3 x height x width` in [0, 1]; ``"truth/TASK"`` and
    ``"prediction/TASK"`` hold classes `n x height x width`, negative where unknown; distances `n x 1 x height x width`,
    0 where unknown; directions `n x 3 x height x width`, zero where unknown; or outlines `n x 1 x height x width`, 0 or
    1, whose prediction is the probability. Runs without samples are left out.
    """
    shown: dict[str, Samples] = {}
    for run in runs:
        if run.samples is not None:
            shown.setdefault(run.label, run.samples)
    if not shown:
        raise ValueError("Parameter `runs` should hold a run with samples. Found none.")
    first = next(iter(shown.values()))
    image = first["image"][sample]
    tasks = [name.removeprefix("truth/") for name in first if name.startswith("truth/")]
    height = 0.93 * CELL * image.shape[1] / image.shape[2] + 0.08  # a gap beside and above every picture
    size = (CELL * (len(tasks) + 1), height * (len(shown) + 1) + 0.25)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(shown) + 1, len(tasks) + 1, squeeze=False)
    _draw_picture(axes[0, 0], image.transpose(1, 2, 0), "image")
    for axis, label in zip(axes[1:, 0], shown, strict=True):
        text = figure_text(label, LETTERS)
        axis.text(1.0, 0.5, text, ha="right", va="center", fontsize=9, transform=axis.transAxes)
        axis.set_axis_off()
    for task, column in zip(tasks, axes.T[1:], strict=True):
        truth = first[f"truth/{task}"][sample]
        rows = [samples.get(f"prediction/{task}") for samples in shown.values()]
        pictures = colour_map(truth, [None if row is None else row[sample] for row in rows])
        for axis, picture in zip(column, pictures, strict=True):
            _draw_picture(axis, picture, task if axis is column[0] else "")
    return figure


def colour_map(truth: Array, found: Sequence[Array | None] = (), *, kind: Kind | None = None) -> list[Array | None]:
    """Return the label and the predictions of one task as pictures, `height x width x 3` in [0, 1].

    Label and predictions are as in :func:`predictions`, without the leading dimension; predictions are drawn with the
    limits of the label. The kind is read from the values of the label by default. A prediction without a label stands
    in its place.

    Example:
        >>> [picture[0, 0].tolist() for picture in colour_map(np.array([[[0.25]]]), kind="outlines")]
        [[0.75, 0.75, 0.75]]
    """
    kind = _kind(truth) if kind is None else kind
    if kind == "distances":
        return _distances(truth, found)
    painters: dict[Kind, Callable[[Array], Array]] = {
        "classes": _paint_classes,
        "directions": _paint_directions,
        "outlines": _paint_outlines,
    }
    return [None if values is None else painters[kind](values) for values in (truth, *found)]


def picture_row(pictures: Mapping[str, Array]) -> Figure:
    """Return pictures of one size, `height x width x 3` in [0, 1], side by side, each under its name."""
    height, width, _ = next(iter(pictures.values())).shape
    size = (2 * CELL * len(pictures), 2 * CELL * height / width + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(pictures), squeeze=False)
    for axis, (name, picture) in zip(axes[0], pictures.items(), strict=True):
        _draw_picture(axis, picture, name)
    return figure


def png(picture: Array) -> bytes:
    """Return a picture, `height x width x 3` in [0, 1], as a PNG file of the same size."""
    buffer = io.BytesIO()
    imsave(buffer, np.clip(picture, 0.0, 1.0), format="png")
    return buffer.getvalue()


def _kind(truth: Array) -> Kind:
    if truth.ndim == 2:
        return "classes"
    if truth.shape[0] == 3:
        return "directions"
    return "outlines" if np.isin(truth, (0, 1)).all() else "distances"


def _paint_classes(classes: Array) -> Array:
    return np.where(classes[..., None] < 0, UNKNOWN, CLASS_COLOURS[classes % len(CLASS_COLOURS)])


def _paint_directions(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=0)
    known = np.isfinite(length) & (length > 0)
    unit = UPRIGHT * vectors / np.where(known, length, 1.0)
    return np.where(known, 0.5 + unit / 2, UNKNOWN).transpose(1, 2, 0)


def _paint_outlines(share: Array) -> Array:
    grey = np.where(np.isfinite(share[0]), 1.0 - np.clip(share[0], 0.0, 1.0), UNKNOWN)
    return np.repeat(grey[..., None], 3, axis=2)


def _distances(truth: Array, found: Sequence[Array | None]) -> list[Array | None]:
    known = truth[0] > 0
    low, high = (truth[0].min(where=known, initial=np.inf), truth[0].max(where=known, initial=-np.inf))

    def paint(distance: Array, shown: Array) -> Array:
        share = np.clip((distance[0] - low) / (high - low), 0.0, 1.0) if high > low else np.zeros_like(distance[0])
        colours = colormaps["viridis"](np.where(shown, share, 0.0))[..., :3]
        return np.where(shown[..., None], colours, UNKNOWN)

    return [
        paint(truth, known),
        *(None if values is None else paint(values, np.isfinite(values[0])) for values in found),
    ]


def _draw_picture(axis: Axes, picture: Array | None, title: str) -> None:
    if picture is None:
        axis.set_axis_off()
    else:
        axis.imshow(np.clip(picture, 0.0, 1.0), interpolation="nearest")
    axis.set_title(figure_text(title), fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
