"""Training from the first step to the last number: epochs, evaluation, checkpoints that survive anything, logs.

Example:
    >>> import tempfile
    >>> from pathlib import Path
    >>> from torchsims.training import Settings, train
    >>> settings = Settings(data="scenes:images=16:resolution=32", method="ew", model="hps:width=8", epochs=1, batch=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = train(settings, Path(folder) / "run")
    >>> sorted(outcome.metrics["depth"])
    ['abs_err', 'rel_err']
"""

from torchsims.training._checkpoints import CHECKPOINT, load_checkpoint, read_settings, replace_file
from torchsims.training._loop import Outcome, StoppedError, train
from torchsims.training._predictor import Predictor, load
from torchsims.training._rows import TablePredictor
from torchsims.training._settings import Settings
from torchsims.training._signals import asked_to_stop
from torchsims.training._watch import TensorBoard, Watch
from torchsims.training.world import first_process, launched, processes

__all__ = [
    "CHECKPOINT",
    "Outcome",
    "Predictor",
    "Settings",
    "StoppedError",
    "TablePredictor",
    "TensorBoard",
    "Watch",
    "asked_to_stop",
    "first_process",
    "launched",
    "load",
    "load_checkpoint",
    "processes",
    "read_settings",
    "replace_file",
    "train",
]
