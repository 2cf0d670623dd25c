"""What the model of a run predicts from files: colour maps of images, rows of tables, or arrays.

torchsims predict RUN image.jpg --out DIR
torchsims predict RUN rows.csv --out DIR
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from torchsims.reporting import Report, Row, colour_map, picture_row, png
from torchsims.training import load
from torchsims.workloads import FilePrediction

__all__ = ["predict_files"]


def predict_files(run: Path, files: Sequence[Path]) -> tuple[dict[str, bytes], Report]:
    """Return what is predicted as files by name, and the page that shows it."""
    stems = [path.name.removesuffix(".gz").rpartition(".")[0] or path.name for path in files]
    if repeated := sorted({stem for stem in stems if stems.count(stem) > 1}):
        raise ValueError(f"Files should have distinct names. Found more than one `{repeated[0]}`.")
    predictor = load(run)
    found = {stem: predictor.predict_file(path) for stem, path in zip(stems, files, strict=True)}
    written: dict[str, bytes] = {}
    figures: dict[str, Figure] = {}
    rows: list[Row] = []
    for stem, prediction in found.items():
        names = dict.fromkeys(prediction.arrays, next((f"{stem}_{end}" for end in prediction.files), ""))
        written |= {f"{stem}_{end}": content for end, content in prediction.files.items()}
        if prediction.image is not None:
            pictures = _draw(prediction)
            for task, picture in pictures.items():
                names[task] = f"{stem}_{re.sub(r'[^-.+ 0-9A-Za-z]', '_', task)}.png"
                written[names[task]] = png(picture)
            figures[f"{stem}_all"] = picture_row({"image": prediction.image, **pictures})
        rows += [{**row, "file": names[row["task"]]} for row in prediction.rows]
    command = f"torchsims predict {run} {' '.join(map(str, files))}"
    notes = list(dict.fromkeys(prediction.note for prediction in found.values()))
    return written, Report("Predictions", command, {"run": str(run)}, rows, figures=figures, notes=notes)


def _draw(prediction: FilePrediction) -> dict[str, NDArray[Any]]:
    """Return the colours of every task that has a picture, `height x width x 3`."""
    pictures = {}
    for task, shown_as in prediction.shown_as.items():
        picture, *_ = colour_map(prediction.arrays[task], kind=shown_as)
        assert picture is not None
        pictures[task] = picture
    return pictures
