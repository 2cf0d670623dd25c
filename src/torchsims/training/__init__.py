"""Training from the first step to the last number: epochs, evaluation, checkpoints that survive anything, logs.

Names are imported when they are first used: the command line reads :class:`RunConfig` before torch is loaded.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from torchsims.training import RunConfig, train
    >>> config = RunConfig(data="scenes:images=16:resolution=32", method="ew", model="hps:width=8", epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train(config, Path(folder) / "run")
    >>> sorted(run.metrics["depth"])
    ['abs_err', 'rel_err']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torchsims.training.config import ComparisonConfig, Execution, RunConfig, read_config, write_config

if TYPE_CHECKING:  # what `__getattr__` does, for readers and type checkers
    from torchsims.training.callbacks import Callback, StepValues, TensorBoard
    from torchsims.training.checkpoints import CHECKPOINT, load_checkpoint, read_checkpoint, replace_file
    from torchsims.training.export import export_run
    from torchsims.training.loop import StoppedError, train
    from torchsims.training.predict import load, load_model, read_run_config
    from torchsims.training.presets import command_of, complete_config, find_changes, label_of, with_method
    from torchsims.training.resolution import Resolved, check_registered, resolve
    from torchsims.training.run import History, Metrics, Run, Samples
    from torchsims.training.signals import asked_to_stop
    from torchsims.training.trainer import Trainer
    from torchsims.training.world import first_process, launched, processes

_HOMES = {
    "callbacks": ("Callback", "StepValues", "TensorBoard"),
    "checkpoints": ("CHECKPOINT", "load_checkpoint", "read_checkpoint", "replace_file"),
    "export": ("export_run",),
    "loop": ("StoppedError", "train"),
    "predict": ("load", "load_model", "read_run_config"),
    "presets": ("command_of", "complete_config", "find_changes", "label_of", "with_method"),
    "resolution": ("Resolved", "check_registered", "resolve"),
    "run": ("History", "Metrics", "Run", "Samples"),
    "signals": ("asked_to_stop",),
    "trainer": ("Trainer",),
    "world": ("first_process", "launched", "processes"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "CHECKPOINT",
    "Callback",
    "ComparisonConfig",
    "Execution",
    "History",
    "Metrics",
    "Resolved",
    "Run",
    "RunConfig",
    "Samples",
    "StepValues",
    "StoppedError",
    "TensorBoard",
    "Trainer",
    "asked_to_stop",
    "check_registered",
    "command_of",
    "complete_config",
    "export_run",
    "find_changes",
    "first_process",
    "label_of",
    "launched",
    "load",
    "load_checkpoint",
    "load_model",
    "processes",
    "read_checkpoint",
    "read_config",
    "read_run_config",
    "replace_file",
    "resolve",
    "train",
    "with_method",
    "write_config",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"torchsims.training.{_MODULES[name]}"), name)
