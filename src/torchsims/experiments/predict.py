"""What the model of a run says about images, as colour maps, or about the rows of tables.

torchsims predict RUN image.jpg --out DIR
torchsims predict RUN rows.csv --out DIR
"""

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from torchsims.data import read_image
from torchsims.reporting import Report, Row, colour_map, picture_row, png
from torchsims.training import Predictor, TablePredictor, load

__all__ = ["predict_files"]

Page = Callable[..., Report]


def predict_files(run: Path, files: Sequence[Path]) -> tuple[dict[str, bytes], Report]:
    """Return what is predicted as files by name, and the page that shows it."""
    names = [_name(path) for path in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Files should have distinct names. Found more than one `{twice[0]}`.")
    predictor = load(run)
    command = f"torchsims predict {run} {' '.join(map(str, files))}"
    page = partial(Report, "Predictions", command, {"run": str(run)})
    if isinstance(predictor, TablePredictor):
        return _of_tables(predictor, files, page)
    return _of_images(predictor, files, page)


def _of_images(predictor: Predictor, images: Sequence[Path], page: Page) -> tuple[dict[str, bytes], Report]:
    photographs = {path: read_image(path) for path in images}  # what is no image is said before anything is predicted
    files: dict[str, bytes] = {}
    figures: dict[str, Figure] = {}
    rows: list[Row] = []
    for path, photograph in photographs.items():
        pixels = photograph.movedim(0, 2).numpy()
        shown = {"image": pixels}
        for task, found in predictor.predict(pixels).items():
            picture, *_ = colour_map(found, kind=predictor.kinds[task])
            assert picture is not None
            shown[task] = picture
            name, size = f"{_name(path)}_{task}.png", " x ".join(map(str, pixels.shape[:2]))
            files[name] = png(shown[task])
            rows.append({"image": path.name, "task": task, "size": size, "file": name})
        figures[f"{_name(path)}_all"] = picture_row(shown)
    note = "Classes in colours; distances from dark (near) to bright (far), each image with limits of its own."
    return files, page(rows, figures=figures, notes=[note])


def _of_tables(predictor: TablePredictor, tables: Sequence[Path], page: Page) -> tuple[dict[str, bytes], Report]:
    contents = {path: predictor.read(path) for path in tables}
    files: dict[str, bytes] = {}
    rows: list[Row] = []
    for path, columns in contents.items():
        found, chances = predictor.predict(columns), predictor.predict_proba(columns)
        name = f"{_name(path)}_predictions.csv"
        written: dict[str, NDArray[np.generic]] = {}
        for task, values in found.items():
            classes = task in chances
            written[task] = whole(values) if classes else values
            if classes:
                written[f"{task} probability"] = chances[task].max(1)
            usual = _most_frequent(written[task]) if classes else float(np.mean(values.astype(np.float64)))
            rows.append({"table": path.name, "rows": len(values), "task": task, "usual": usual, "file": name})
        files[name] = _as_csv(written)
    note = (
        "One line a row, in the order of the table. Usual: the mean of numbers, the most frequent class; the "
        "probability is that of the class that is predicted."
    )
    return files, page(rows, notes=[note])


def _name(path: Path) -> str:
    """Return the name of a file without what its kind is called."""
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name


def whole(classes: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return classes that are whole numbers as such.

    Example:
        >>> whole(np.array([0.0, 2.0])).tolist(), whole(np.array([0.5, 2.0])).tolist()
        ([0, 2], [0.5, 2.0])
    """
    if classes.dtype.kind == "f":
        numbers = classes.astype(np.float64)
        return classes.astype(np.int64) if (numbers == np.round(numbers)).all() else classes
    return classes


def _most_frequent(classes: NDArray[np.generic]) -> str:
    names, counts = np.unique(classes, return_counts=True)
    return str(names[counts.argmax()])


def _as_csv(columns: dict[str, NDArray[np.generic]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return text.getvalue().encode()
