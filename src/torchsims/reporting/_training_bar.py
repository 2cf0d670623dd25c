"""The progress of a training as a bar."""

from collections.abc import Callable
from typing import final

from torchsims.reporting._progress import Advance, Progress
from torchsims.training import Callback, StepValues


@final
class ProgressBar(Callback):
    """Shows the progress of the run ``name`` and its losses; ``warn`` is called with warnings."""

    def __init__(self, progress: Progress, name: str, warn: Callable[[str], None] = lambda sentence: None) -> None:
        self._progress, self._name, self._warn = progress, name, warn
        self._advance: Advance | None = None

    def on_start(self, step: int, steps: int) -> None:
        self._advance = self._progress(self._name, steps)
        self._advance(step)

    def on_step(self, step: int, values: StepValues) -> None:
        assert self._advance is not None
        self._advance(1, "  ".join(f"{task} {loss:.3g}" for task, loss in values.losses.items()))

    def on_warning(self, sentence: str) -> None:
        self._warn(sentence)
