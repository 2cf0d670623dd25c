"""Micro-batches that wait for a step."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

from torchsims.steppers._notices import UNUSED, Notice

__all__ = ["Accumulated", "Accumulating", "check_closure"]


@final
class Accumulated:
    """The micro-batches that were given one by one, and their closure; no graph and no copy of them.

    Attributes:
        failed: whether a step of them has failed.
    """

    def __init__(self) -> None:
        self.failed = False
        self._closure: Callable[..., Any] | None = None
        self._micro_batches: list[Any] = []

    def __len__(self) -> int:
        return len(self._micro_batches)

    def add(self, closure: Callable[..., Any], micro_batch: Any) -> None:
        """Keep a micro-batch; raise if its closure is not that of the others."""
        if self._micro_batches and closure != self._closure:  # not `is`: a bound method is made anew at every look
            raise ValueError(
                "All micro-batches of a step should have the same closure. "
                "Found another one: define it once, before the loop, or call `update` before it changes."
            )
        self._closure = closure
        self._micro_batches.append(micro_batch)

    def contents(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the closure and the micro-batches."""
        closure, micro_batches = self._closure, tuple(self._micro_batches)
        if closure is None or not micro_batches:
            raise RuntimeError(
                "Method `backward` should get a closure and a batch, or follow `accumulate`. Found neither."
            )
        return closure, micro_batches


class Accumulating(ABC):
    """What a stepper keeps for its next step."""

    def __init__(self) -> None:
        self._accumulated = Accumulated()
        self._unused = Notice(UNUSED)

    def accumulate(self, task_losses: Callable[..., Any], micro_batch: Any) -> None:
        """Keep a micro-batch for the next :meth:`update`, which takes the exact step over all that were kept.

        Nothing is computed here. The micro-batch is kept as it is and not copied, and should not change until then;
        graphs are built in the step, one at a time. What is left at the end of an epoch waits for an :meth:`update`
        too: without one, it is dropped with a warning. After a step that failed all are still there: another
        :meth:`update` tries again, and the next micro-batch starts anew, with a warning.

        Args:
            task_losses: the closure as in :meth:`step`, the same one for all micro-batches of a step.
            micro_batch: a part of the batch; the parts need not be equal if the closure returns `TaskLosses`.

        Example:
            >>> from functools import partial
            >>> import torch
            >>> from torch.optim import SGD
            >>> from torchsims import SIMS
            >>> def task_losses(model, batch):
            ...     return (model(batch) - 1).square().mean(0)
            >>> method = SIMS(torch.nn.Linear(4, 2), outer=partial(SGD, lr=0.1), inner=partial(SGD, lr=0.5))
            >>> for index, batch in enumerate(torch.randn(8, 16, 4), start=1):
            ...     method.accumulate(task_losses, batch)
            ...     if index % 4 == 0:
            ...         report = method.update()
        """
        self._check_idle()
        check_closure(task_losses)
        if self._accumulated.failed:
            self._drop_accumulated()
        self._accumulated.add(task_losses, micro_batch)
        self._drop_unused_gradients()

    def _choose(
        self, task_losses: Callable[..., Any] | None, micro_batches: tuple[Any, ...]
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the closure and the micro-batches of a step: those that are given, or else those that were kept."""
        if task_losses is None and not micro_batches:
            return self._accumulated.contents()
        closure = check_closure(task_losses)
        self._drop_accumulated()
        return closure, micro_batches

    def _keep(self, kept: Accumulated) -> None:
        """Keep the micro-batches for another try, when a step of them has failed."""
        kept.failed = len(kept) > 0
        self._accumulated = kept

    def _drop_accumulated(self) -> None:
        if self._accumulated:
            self._unused()
            self._accumulated = Accumulated()

    @abstractmethod
    def _check_idle(self) -> None:
        """Raise where no step can be taken and no state be saved, such as inside of a closure."""

    @abstractmethod
    def _drop_unused_gradients(self) -> None:
        """Drop the gradients that wait for an update, with a warning."""


def check_closure(closure: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return the closure; raise if it is not a function, but its result, for example."""
    if not callable(closure):
        raise TypeError(
            "The closure should be a function `task_losses(model, batch)` that returns the losses. "
            f"Found `{type(closure).__name__}`, which cannot be called."
        )
    return closure
