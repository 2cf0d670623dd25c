"""What the model of a run says about images, as colour maps, or about the rows of tables.

torchsims predict RUN image.jpg --out DIR
torchsims predict RUN rows.csv --out DIR
"""

from collections.abc import Sequence
from pathlib import Path

from torchsims.data import read_image
from torchsims.reporting import Predicted, Report, output_names, prediction_report
from torchsims.training import Predictor, TablePredictor, load

__all__ = ["predict_files"]


def predict_files(run: Path, files: Sequence[Path]) -> tuple[dict[str, bytes], Report]:
    """Return what is predicted as files by name, and the report that shows it."""
    output_names(files)  # raises errors before anything is predicted
    predictor = load(run)
    found = _tables(predictor, files) if isinstance(predictor, TablePredictor) else _images(predictor, files)
    return prediction_report(run, found)


def _images(predictor: Predictor, files: Sequence[Path]) -> list[Predicted]:
    images = [read_image(path).movedim(0, 2).numpy() for path in files]
    return [
        Predicted(path, predictor.predict(image), image, predictor.kinds)
        for path, image in zip(files, images, strict=True)
    ]


def _tables(predictor: TablePredictor, files: Sequence[Path]) -> list[Predicted]:
    contents = [predictor.read(path) for path in files]
    return [
        Predicted(
            path,
            predictor.predict(columns),
            probabilities={task: values.max(1) for task, values in predictor.predict_proba(columns).items()},
        )
        for path, columns in zip(files, contents, strict=True)
    ]
