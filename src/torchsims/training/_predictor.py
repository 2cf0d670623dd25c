from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import interpolate

from torchsims.data import as_image, read_image
from torchsims.training._batches import mix
from torchsims.training._checkpoints import CHECKPOINT, read_checkpoint
from torchsims.training._rows import TablePredictor
from torchsims.training._trainable import load_trainable_state
from torchsims.workloads import Workload, load_workload
from torchsims.workloads._base import Kind
from torchsims.workloads.table import TableWorkload

__all__ = ["Predictor", "load"]

MULTIPLE = 16  # height and width that every model here can halve four times


@final
class Predictor:
    """The model of a run, for images that it has never seen. :func:`torchsims.load` makes one.

    Args:
        workload: the data that it was trained on; only its tasks are used, not its files.
        model: the trained model.
        shape: height and width of the images of the training.

    Attributes:
        tasks: what it predicts.
        kinds: how a picture shows each task, as in :func:`torchsims.reporting.colour_map`.

    Example:
        >>> workload = load_workload("scenes", ("depth",))
        >>> predictor = Predictor(workload, workload.model("hps:width=8"), (32, 32))
        >>> predictor.predict(np.zeros((48, 64, 3)))["depth"].shape
        (1, 48, 64)
    """

    def __init__(self, workload: Workload, model: nn.Module, shape: tuple[int, int]) -> None:
        self._workload, self._model, self._shape = workload, model.eval(), shape
        self.tasks: tuple[str, ...] = workload.tasks
        self.kinds: Mapping[str, Kind] = workload.kinds

    @torch.no_grad()
    def predict(self, image: str | PathLike[str] | NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Return the prediction of every task, at the height and width of the image.

        The model sees the image at its own proportions, with about as many pixels as those of the training had.

        Args:
            image: a file, or colours `height x width x 3`, from 0 to 255 if they are bytes and from 0 to 1 otherwise.

        Returns:
            Classes `height x width`; depth, edges and saliency `1 x height x width`; normals `3 x height x width`.
        """
        pixels = as_image(image, Path("image")) if isinstance(image, np.ndarray) else read_image(image)
        like = next(self._model.parameters())
        size = fitted((pixels.shape[1], pixels.shape[2]), self._shape)
        shown = _resize(pixels[None], size).clamp(0.0, 1.0).to(like)
        found = self._workload.predict(self._model, {"image": shown})
        # Scores are brought to the size of the image, and then turned into classes: labels do not mix.
        full = {task: _resize(value.float(), pixels.shape[1:]) for task, value in found.items()}
        return {task: value[0].cpu().numpy() for task, value in self._workload.shown(full).items()}


def fitted(shape: tuple[int, int], usual: tuple[int, int]) -> tuple[int, int]:
    """Return a height and width with the proportions of ``shape`` and about the area of ``usual``.

    Example:
        >>> fitted((480, 640), (96, 128)), fitted((1000, 500), (96, 128))
        ((96, 128), (160, 80))
    """
    factor = (usual[0] * usual[1] / (shape[0] * shape[1])) ** 0.5
    if shape == usual:
        return usual
    height, width = (max(MULTIPLE, round(factor * side / MULTIPLE) * MULTIPLE) for side in shape)
    return height, width


def _resize(values: Tensor, size: tuple[int, ...] | torch.Size) -> Tensor:
    if values.shape[-2:] == torch.Size(size):
        return values
    return interpolate(values, tuple(size), mode="bilinear", align_corners=False, antialias=True)


def load(run: str | PathLike[str], device: str = "cpu") -> Predictor | TablePredictor:
    """Return the model of a run, finished or not, for inference. The data of the run need not be there.

    One of a run on images predicts from images, one of a run on a table from rows.

    Args:
        run: the folder that `torchsims train` left, or one in ``runs/`` of `torchsims compare`.
        device: where to compute.

    Example:
        >>> import tempfile
        >>> import torchsims
        >>> from torchsims.data import Scenes
        >>> from torchsims.training import Settings, train
        >>> settings = Settings("scenes:images=8:resolution=32", "ew", "hps:width=8", epochs=1, batch=4)
        >>> with tempfile.TemporaryDirectory() as run:
        ...     outcome = train(settings, Path(run))
        ...     predictor = torchsims.load(run)
        >>> image = Scenes(size=1, resolution=(48, 64))[0]["image"].movedim(0, 2).numpy()
        >>> {task: array.shape for task, array in predictor.predict(image).items()}
        {'seg': (48, 64), 'depth': (1, 48, 64), 'normals': (3, 48, 64)}
    """
    path = Path(run) / CHECKPOINT
    if not path.is_file():
        raise ValueError(f"There is no run with a checkpoint in `{run}`.")
    state = read_checkpoint(path)
    settings = state["settings"]
    workload: Workload
    if state.get("fitted"):
        workload = TableWorkload.restored(state["fitted"])
    elif state.get("shape"):
        workload = load_workload(settings["data"], settings["tasks"], settings["root"])
    else:
        name = settings["data"].partition(":")[0]
        raise ValueError(f"The run in `{run}` should be one on scenes, photographs or a table. Found one on `{name}`.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mix(settings["seed"]))  # frozen random weights are drawn again
        model = workload.model(settings["model"]).to(device, getattr(torch, settings["dtype"]))
    load_trainable_state(model, state["model"], state["frozen"])
    if isinstance(workload, TableWorkload):
        return TablePredictor(workload, model)
    height, width = state["shape"]
    return Predictor(workload, model, (height, width))
