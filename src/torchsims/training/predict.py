"""The model of a run, for data that it has never seen."""

from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from torchsims.training.checkpoints import CHECKPOINT, fits_checkpoint, read_checkpoint
from torchsims.training.config import RunConfig
from torchsims.training.resolution import Resolved, check_registered
from torchsims.training.seeding import mix
from torchsims.training.trainable import load_trainable_state
from torchsims.workloads import Predictor, Workload, restore_workload

CHOSEN = "chosen.txt"
"""File in a folder of several runs: the name of one of its ``runs``, the one to predict with."""
MOST_LETTERS = 1000  # of a name that is read from a file


def load(run: str | PathLike[str], device: str = "cpu", *, named: Collection[str] = ()) -> Predictor:
    """Return the model of a run, finished or not, for inference. The data of the run need not be there.

    A run on images predicts from images, a run on a table from rows. The folder of ``torchsims front`` stands for the
    run that was chosen. If the run selected its best epoch, the model is
    the one of that epoch.

    Args:
        run: folder that ``torchsims train`` or ``front`` left, or one in ``runs/`` of ``compare`` or ``front``.
        device: where to compute.
        named: classes ``package.module:Class`` that the run names and that may be imported; a checkpoint is
            untrusted input, and by default only registered classes are imported.

    Example:
        >>> import tempfile
        >>> import torchsims
        >>> from torchsims.data import Scenes
        >>> from torchsims.training import RunConfig, train
        >>> config = RunConfig("scenes:images=8:resolution=32", "ew", "hps:width=8", epochs=1, batch=4)
        >>> with tempfile.TemporaryDirectory() as run:
        ...     _ = train(config, Path(run))
        ...     predictor = torchsims.load(run)
        >>> image = Scenes(size=1, resolution=(48, 64))[0]["image"].movedim(0, 2).numpy()
        >>> {task: array.shape for task, array in predictor.predict(image).items()}
        {'seg': (48, 64), 'depth': (1, 48, 64), 'normals': (3, 48, 64)}
    """
    workload, model = load_model(run, device, named=named)
    return workload.predictor(model)


def load_model(
    run: str | PathLike[str], device: str = "cpu", *, named: Collection[str] = ()
) -> tuple[Workload, nn.Module]:
    """Return the workload of a run, without its data, and its model; arguments as in :func:`load`.

    Example:
        >>> load_model("no such folder")
        Traceback (most recent call last):
        ValueError: There is no run with a checkpoint in `no such folder`.
    """
    state = _read(run)
    config = RunConfig.from_dict(state["config"])
    check_registered(config, named, parts=("data", "model"))  # predictions need no method
    with fits_checkpoint(find_checkpoint(run)):
        workload = restore_workload(config.data, config.tasks, config.root, state["workload"])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(mix(config.seed))  # frozen random weights are drawn again
            model = workload.build_model(config.model).to(device, getattr(torch, config.dtype))
        _load_state(model, config, state)
    return workload, model


def load_trained(model: nn.Module, resolved: Resolved, run: str | PathLike[str]) -> None:
    """Load the parameters of a run into a model of the same configuration, whose data are those of the run."""
    state = _read(run)
    with fits_checkpoint(find_checkpoint(run)):
        if state["workload"] != resolved.workload.prediction_state():
            raise ValueError(f"The data in `{resolved.config.root}` is not what it was when the run began.")
        _load_state(model, RunConfig.from_dict(state["config"]), state)


def _load_state(model: nn.Module, config: RunConfig, state: Mapping[str, Any]) -> None:
    selected = state["selection"]["model"] if config.select == "best" else None
    load_trainable_state(model, selected or state["model"], state["frozen"])


def read_run_config(run: str | PathLike[str]) -> RunConfig | None:
    """Return the configuration of the run that left a checkpoint in a folder, or None if there is none."""
    if not find_checkpoint(run).exists():
        return None
    return RunConfig.from_dict(_read(run)["config"])


def find_checkpoint(run: str | PathLike[str]) -> Path:
    """Return where the checkpoint of a run is; in a folder of several runs, that of the one that was chosen.

    Example:
        >>> find_checkpoint("runs/front").name
        'checkpoint.pt'
    """
    path, chosen = Path(run) / CHECKPOINT, Path(run) / CHOSEN
    if path.exists() or not chosen.is_file():
        return path
    with chosen.open(encoding="utf-8", errors="replace") as file:
        name = file.read(MOST_LETTERS).strip()
    if not name or name in (".", "..") or Path(name).name != name:
        raise ValueError(f"The file `{chosen}` should name a folder in `{Path(run) / 'runs'}`. Found `{name:.40}`.")
    return Path(run) / "runs" / name / CHECKPOINT


def _read(run: str | PathLike[str]) -> dict[str, Any]:
    path = find_checkpoint(run)
    if not path.is_file():
        raise ValueError(f"There is no run with a checkpoint in `{run}`.")
    return read_checkpoint(path)
