from os import PathLike
from pathlib import Path

import torch

from torchsims.training._batches import mix
from torchsims.training._checkpoints import CHECKPOINT, read_checkpoint
from torchsims.training._trainable import load_trainable_state
from torchsims.workloads import Predictor, restore_workload

__all__ = ["load"]


def load(run: str | PathLike[str], device: str = "cpu") -> Predictor:
    """Return the model of a run, finished or not, for inference. The data of the run need not be there.

    A run on images predicts from images, a run on a table from rows, and any other run from arrays.

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
    workload = restore_workload(settings["data"], settings["tasks"], settings["root"] or "", state["fitted"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mix(settings["seed"]))  # frozen random weights are drawn again
        model = workload.build_model(settings["model"]).to(device, getattr(torch, settings["dtype"]))
    load_trainable_state(model, state["model"], state["frozen"])
    return workload.predictor(model)
