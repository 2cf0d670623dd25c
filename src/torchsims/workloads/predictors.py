"""Predictions from new data with a trained model: from arrays, and from images."""

import io
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import interpolate

from torchsims._limits import TooLargeError, check_archive
from torchsims.data import read_image
from torchsims.workloads.task import Display

if TYPE_CHECKING:
    from torchsims.workloads.base import Workload

Arrays = Mapping[str, NDArray[Any]]

MULTIPLE = 16  # every model here halves height and width four times


@final
@dataclass(frozen=True, eq=False)
class FilePrediction:
    """What is predicted from one file, as plain data.

    Attributes:
        path: the file.
        arrays: what users see of the predictions, by task.
        rows: rows of a summary table, one per task, whose column ``task`` names it.
        note: a sentence about the table.
        files: contents of files to write, by the end of their name.
        image: the colours of an image, `height x width x 3`, from 0 to 1; None if there is no picture.
        shown_as: how a picture shows each task that has one.

    Example:
        >>> FilePrediction(Path("x.npy"), {"sum": np.ones(2)}, [{"task": "sum", "items": 2}]).arrays["sum"].tolist()
        [1.0, 1.0]
    """

    path: Path
    arrays: Arrays
    rows: Sequence[Mapping[str, Any]]
    note: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    image: NDArray[Any] | None = None
    shown_as: Mapping[str, Display] = field(default_factory=dict)


class Predictor(ABC):
    """The model of a run, for data that it has never seen. :func:`torchsims.load` makes one.

    Args:
        workload: describes the tasks; its data are not used.
        model: the trained model.

    Attributes:
        tasks: names of the predicted tasks.
    """

    def __init__(self, workload: "Workload", model: nn.Module) -> None:
        self._workload, self._model = workload, model.eval()
        self.tasks: tuple[str, ...] = workload.tasks

    @abstractmethod
    def predict(self, data: Any) -> dict[str, NDArray[Any]]:
        """Return what users see of the predictions, by task."""

    @abstractmethod
    def predict_file(self, path: str | PathLike[str]) -> FilePrediction:
        """Return what is predicted from a file."""

    @torch.no_grad()
    def _outputs(self, fields: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs of the model for all items, by task."""
        like, size = next(self._model.parameters()), self._workload.at_once
        parts = []
        for start in range(0, len(next(iter(fields.values()))) or 1, size):  # no items have empty outputs
            rows = {name: values[start : start + size] for name, values in fields.items()}
            batch = {name: x.to(like if x.is_floating_point() else like.device) for name, x in rows.items()}
            parts.append(self._workload.predict(self._model, batch))
        found = {task: torch.cat([part[task] for part in parts]) for task in self.tasks}
        for task, values in found.items():
            if not (finite := values.isfinite().flatten(1).all(1)).all():
                row = int(finite.logical_not().nonzero()[0])
                raise ValueError(f"The prediction of task `{task}` should be finite. Found another in row {row + 1}.")
        return found


@final
class ArrayPredictor(Predictor):
    """Predicts from arrays of what the model takes."""

    def predict(self, data: NDArray[Any] | Arrays) -> dict[str, NDArray[Any]]:
        """Return one prediction per item and task.

        The data are arrays by the name of the input, each with a leading dimension for the item; or a single array if
        the model takes one input.
        """
        names = self._workload.inputs
        given = data if isinstance(data, Mapping) else {names[0]: data}
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"Arrays should be called {', '.join(names)}. Missing: {', '.join(missing)}.")
        arrays = {name: np.asarray(given[name]) for name in names}
        if bad := [name for name, array in arrays.items() if array.dtype.kind not in "biuf" or not array.ndim]:
            raise ValueError(f"Array `{bad[0]}` should hold numbers, with a leading dimension for the item.")
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1 or not lengths[names[0]]:
            raise ValueError(f"Arrays should have the same number of items, at least one. Found {lengths}.")
        found = self._outputs({name: torch.from_numpy(array) for name, array in arrays.items()})
        return {task: self._workload.specs[task].decode(values).cpu().numpy() for task, values in found.items()}

    def predict_file(self, path: str | PathLike[str]) -> FilePrediction:
        """Return what is predicted from an ``.npz`` file with one array per input, or from an ``.npy`` file."""
        path = Path(path)
        try:
            with path.open("rb") as file:
                check_archive(path)
                loaded = np.load(file, allow_pickle=False)
                data = loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
        except TooLargeError:
            raise
        except Exception as error:  # broken files raise whatever their decoder stumbles over
            raise ValueError(f"File `{path}` should be an .npy or .npz file of arrays. Found: {error}.") from error
        found = self.predict(data)
        rows = [{"arrays": path.name, "task": task, "items": len(values)} for task, values in found.items()]
        return FilePrediction(path, found, rows, "One array per task.", {"predictions.npz": _npz(found)})


@final
class ImagePredictor(Predictor):
    """Predicts every pixel of an image; ``shape`` is the height and width of the images of the training."""

    def __init__(self, workload: "Workload", model: nn.Module, shape: tuple[int, int]) -> None:
        super().__init__(workload, model)
        self._shape = shape

    def predict(self, data: str | PathLike[str] | NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the prediction of every task, at the height and width of the image.

        The data are what :func:`torchsims.data.read_image` takes. The model sees the image at its own proportions, with
        about as many pixels as those of the training had. Classes are `height x width`; depth, edges and saliency
        `1 x height x width`; normals `3 x height x width`.
        """
        pixels = read_image(data, sum(self._workload.outputs.values()))
        size = fit_size((pixels.shape[1], pixels.shape[2]), self._shape)
        found = self._outputs({"image": _resize(pixels[None], size).clamp(0.0, 1.0)})
        # Scores are resized before they are turned into classes: classes cannot be interpolated.
        full = {task: _resize(values.float(), pixels.shape[1:]) for task, values in found.items()}
        return {task: self._workload.specs[task].decode(values)[0].cpu().numpy() for task, values in full.items()}

    def predict_file(self, path: str | PathLike[str]) -> FilePrediction:
        """Return what is predicted from an image file."""
        path = Path(path)
        image = read_image(path, sum(self._workload.outputs.values())).movedim(0, 2).numpy()
        found, size = self.predict(image), " x ".join(map(str, image.shape[:2]))
        shown_as = {task: spec.shown_as for task, spec in self._workload.specs.items() if spec.shown_as}
        return FilePrediction(
            path,
            found,
            [{"image": path.name, "task": task, "size": size} for task in found],
            "Classes in colours; distances from dark (near) to bright (far), each image with limits of its own.",
            image=image,
            shown_as=shown_as,
        )


def fit_size(shape: tuple[int, int], usual: tuple[int, int]) -> tuple[int, int]:
    """Return a height and width with the proportions of ``shape`` and about the area of ``usual``."""
    if shape == usual:
        return usual
    factor = (usual[0] * usual[1] / (shape[0] * shape[1])) ** 0.5
    longest = max(1, usual[0] * usual[1] // MULTIPLE**2)  # a line of pixels is squeezed
    height, width = (MULTIPLE * min(max(1, round(factor * side / MULTIPLE)), longest) for side in shape)
    return height, width


def _resize(values: Tensor, size: tuple[int, ...] | torch.Size) -> Tensor:
    if values.shape[-2:] == torch.Size(size):
        return values
    return interpolate(values, tuple(size), mode="bilinear", align_corners=False, antialias=True)


def _npz(arrays: Arrays) -> bytes:
    """Return the contents of an ``.npz`` file; unlike ``numpy.savez`` it takes any text as the name of an array."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.save(part, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())  # without the time of writing
    return content.getvalue()
