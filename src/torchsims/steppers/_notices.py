"""Warnings about steps that are allowed and probably not meant; each stepper gives each of them once."""

import inspect
import warnings
from typing import final

__all__ = ["DROPPED", "EQUAL_COPIES", "UNSAVED", "UNUSED", "Notice", "warn"]

DROPPED = (
    "The gradients of a `backward` without an `update` were dropped. "
    "To accumulate gradients, give all micro-batches to one call: `step(task_losses, *micro_batches)`, or one "
    "by one to `accumulate`."
)

UNUSED = (
    "The micro-batches that `accumulate` kept were dropped. "
    "Call `update` before the end of an epoch, and before a `step` or `backward` of another batch."
)

UNSAVED = (
    "The state does not hold the micro-batches that `accumulate` keeps. Call `update` before `state_dict`, or they "
    "will be missing in a run that goes on from this state."
)

EQUAL_COPIES = (
    "The model and the challenger start at the same point with the same optimizer: they stay equal, and all tasks keep "
    "the same weight. Give `inner` a larger learning rate, or start the challenger elsewhere with `perturb`."
)


@final
class Notice:
    """A warning that is given once."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self._given = False

    def __call__(self) -> None:
        if not self._given:
            self._given = True
            warn(self._sentence)


def warn(sentence: str) -> None:
    """Warn with the place from which the steppers were called."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("torchsims.steppers."):
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, stacklevel=level)
