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

from torchsims.training.config import (
    ComparisonConfig,
    Execution,
    FrontConfig,
    RunConfig,
    TuningConfig,
    read_config,
    write_config,
)

if TYPE_CHECKING:  # what `__getattr__` does, for readers and type checkers
    from torchsims.training.callbacks import Callback, StepValues, TensorBoard
    from torchsims.training.costs import Cost, Device, measure_cost
    from torchsims.training.export import export_run
    from torchsims.training.loop import StoppedError, train
    from torchsims.training.predict import load, load_model
    from torchsims.training.presets import complete_config, label_of, with_method
    from torchsims.training.resolution import Resolved, resolve
    from torchsims.training.run import History, Metrics, Run
    from torchsims.training.trainer import Trainer

__all__ = [
    "Callback",
    "ComparisonConfig",
    "Cost",
    "Device",
    "Execution",
    "FrontConfig",
    "History",
    "Metrics",
    "Resolved",
    "Run",
    "RunConfig",
    "StepValues",
    "StoppedError",
    "TensorBoard",
    "Trainer",
    "TuningConfig",
    "complete_config",
    "export_run",
    "label_of",
    "load",
    "load_model",
    "measure_cost",
    "read_config",
    "resolve",
    "train",
    "with_method",
    "write_config",
]

_HOMES = {
    "callbacks": ("Callback", "StepValues", "TensorBoard"),
    "costs": ("Cost", "Device", "measure_cost"),
    "export": ("export_run",),
    "loop": ("StoppedError", "train"),
    "predict": ("load", "load_model"),
    "presets": ("complete_config", "label_of", "with_method"),
    "resolution": ("Resolved", "resolve"),
    "run": ("History", "Metrics", "Run"),
    "trainer": ("Trainer",),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"torchsims.training.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
