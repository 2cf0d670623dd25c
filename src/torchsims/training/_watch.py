"""Who looks on while a run trains."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

__all__ = ["TensorBoard", "Watch"]


class Watch:
    """What is told about a run while it trains; this one does not listen."""

    def start(self, step: int, steps: int) -> None:
        """Begin, or go on, at ``step`` of ``steps``."""

    def step(self, step: int, values: Mapping[str, float]) -> None:
        """Look at a step: raw losses, weights, merit or objective, and rates, by names such as ``losses/depth``."""

    def epoch(self, step: int, values: Mapping[str, float]) -> None:
        """Look at the metrics of the validation split after an epoch."""

    def warn(self, sentence: str) -> None:
        """Hear of something that the user should know, once."""

    def close(self) -> None:
        """End, whether the run is finished or not."""


@final
class TensorBoard(Watch):
    """Writes everything to event files.

    Args:
        folder: where they go.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     watch = TensorBoard(Path(folder))
        ...     watch.start(0, 1)
        ...     watch.step(0, {"losses/depth": 0.5})
        ...     watch.close()
        ...     len(list(Path(folder).iterdir()))
        1
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def start(self, step: int, steps: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What a killed run wrote after its last checkpoint is taken back.
        self._writer = SummaryWriter(str(self._folder), purge_step=step)

    def step(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def epoch(self, step: int, values: Mapping[str, float]) -> None:
        self.step(step, values)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
