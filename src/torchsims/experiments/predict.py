"""Colour maps of what the model of a run sees in images.

torchsims predict RUN image.jpg --out DIR
"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from torchsims.data import read_image
from torchsims.reporting import Report, Row, colour_map, picture_row, png
from torchsims.training import load

__all__ = ["predict_images"]


def predict_images(run: Path, images: Sequence[Path]) -> tuple[dict[str, bytes], Report]:
    """Return the colour maps as files by name, and the page that shows them."""
    names = [path.stem for path in images]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Images should have distinct names. Found more than one `{twice[0]}`.")
    photographs = {path: read_image(path) for path in images}  # what is no image is said before the model is made
    predictor = load(run)
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
            files[f"{path.stem}_{task}.png"] = png(shown[task])
            size = " x ".join(map(str, pixels.shape[:2]))
            rows.append({"image": path.name, "task": task, "size": size, "file": f"{path.stem}_{task}.png"})
        figures[f"{path.stem}_all"] = picture_row(shown)
    command = f"torchsims predict {run} {' '.join(map(str, images))}"
    note = "Classes in colours; distances from dark (near) to bright (far), each image with limits of its own."
    report = Report("Predictions", command, {"run": str(run)}, rows, figures=figures, notes=[note])
    return files, report
