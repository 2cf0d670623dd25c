"""The page of predictions: colour maps of images, or the targets of the rows of tables."""

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from torchsims.reporting._pictures import Array, Kind, colour_map, picture_row, png
from torchsims.reporting._report import Report
from torchsims.reporting._tables import Row, file_name

__all__ = ["Predicted", "output_names", "prediction_report"]

IMAGE_NOTE = "Classes in colours; distances from dark (near) to bright (far), each image with its own limits."
TABLE_NOTE = (
    "One line per row, in the order of the table. The typical value is the mean of numbers, or the most frequent "
    "class; the probability is that of the predicted class."
)


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a model predicts for one file.

    Attributes:
        source: the file.
        values: predictions by task. Of an image, maps as in :func:`colour_map`; of a table, one value per row.
        image: the image, `height x width x 3` in [0, 1]; None for a table.
        kinds: how a picture shows each task of an image, as in :func:`colour_map`.
        probabilities: probability of the predicted class per row, by task; tasks without classes are not there.

    Example:
        >>> Predicted(Path("rows.csv"), {"price": np.array([1.5, 2.5])}).image is None
        True
    """

    source: Path
    values: Mapping[str, Array]
    image: Array | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    probabilities: Mapping[str, Array] = field(default_factory=dict)


def output_names(paths: Sequence[Path]) -> list[str]:
    """Return how the output files of each input file begin; input files of one name are an error.

    Example:
        >>> output_names([Path("a/room.jpg"), Path("rows.csv.gz")])
        ['room', 'rows']
    """
    names = [path.name.removesuffix(".gz").rpartition(".")[0] or path.name for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Files should have distinct names. Found more than one `{twice[0]}`.")
    return names


def prediction_report(run: Path, found: Sequence[Predicted]) -> tuple[dict[str, bytes], Report]:
    r"""Return what is predicted as files by name, and the report that shows it.

    Args:
        run: folder of the run whose model it is.
        found: predictions, one entry per file.

    Example:
        >>> files, report = prediction_report(Path("runs/a b"), [Predicted(Path("rows.csv"), {"y": np.array([1.5])})])
        >>> files, report.command
        ({'rows_predictions.csv': b'y\n1.5\n'}, "torchsims predict 'runs/a b' rows.csv")
    """
    files: dict[str, bytes] = {}
    drawn: dict[str, Figure] = {}
    rows: list[Row] = []
    for name, entry in zip(output_names([entry.source for entry in found]), found, strict=True):
        if entry.image is None:
            target = f"{name}_predictions.csv"
            files[target] = _csv_file(entry)
            rows += [{**row, "file": target} for row in _summary(entry)]
            continue
        shown = {"image": entry.image}
        for task, values in entry.values.items():
            picture, *_ = colour_map(values, kind=entry.kinds[task])
            assert picture is not None
            target, size = _free_name(f"{name}_{file_name(task)}", files), " x ".join(map(str, entry.image.shape[:2]))
            shown[task], files[target] = picture, png(picture)
            rows.append({"image": entry.source.name, "task": task, "size": size, "file": target})
        drawn[f"{name}_all"] = picture_row(shown)
    figures = {_free_name(name, files).removesuffix(".png"): figure for name, figure in drawn.items()}
    return files, Report(
        title="Predictions",
        command=shlex.join(["torchsims", "predict", str(run), *(str(entry.source) for entry in found)]),
        settings={"run": str(run)},
        rows=rows,
        figures=figures,
        notes=[IMAGE_NOTE] * bool(figures) + [TABLE_NOTE] * any(entry.image is None for entry in found),
        downloads=list(files),
    )


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """Return a name for a PNG file that no other file has: a task may be called ``all``."""
    while f"{name}.png" in taken:
        name += "_"
    return f"{name}.png"


def _summary(entry: Predicted) -> list[Row]:
    rows: list[Row] = []
    for task, values in entry.values.items():
        typical: object = float(np.mean(values.astype(np.float64))) if task not in entry.probabilities else None
        if typical is None:
            classes, counts = np.unique(_integers(values), return_counts=True)
            typical = str(classes[counts.argmax()])
        rows.append({"table": entry.source.name, "rows": len(values), "task": task, "typical": typical})
    return rows


def _csv_file(entry: Predicted) -> bytes:
    header, columns = [], []
    for task, values in entry.values.items():
        header.append(task)
        columns.append(_integers(values) if task in entry.probabilities else values)
        if task in entry.probabilities:
            header.append(f"{task} probability")
            columns.append(entry.probabilities[task])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
    return text.getvalue().encode(errors="backslashreplace")


def _integers(classes: Array) -> Array:
    """Return classes that are whole numbers as integers."""
    if classes.dtype.kind == "f" and (classes == np.round(classes)).all():
        return classes.astype(np.int64)
    return classes
