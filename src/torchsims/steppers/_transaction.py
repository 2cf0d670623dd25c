"""A step as a transaction: what undoes it until it is committed, and how interrupts wait meanwhile."""

import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter, is_not
from typing import Generic, TypeVar, final

import torch
from torch import Tensor

from torchsims.steppers._modes import Modes
from torchsims.steppers._reports import Report

__all__ = ["Transaction", "check_outside_closure", "running_closure"]

R = TypeVar("R", bound=Report)
Reversal = Callable[[], None]

_BACKWARD = "A closure should only compute losses. Found a call of `backward` inside of it: leave that to the method."

_GRAD = attrgetter("grad")

_closure_runs: ContextVar[bool] = ContextVar("closure_runs", default=False)


@final
class Transaction(Generic[R]):
    """What undoes a step. Everything in it can be repeated, so that an interrupt may come at any time.

    Args:
        modes: the modes around the step.
        forget: called for a step that failed, not for one that is skipped: lets the gradient scaler forget it, and the
            method keep its micro-batches.

    Attributes:
        report: the report, while the gradients are computed and not used yet.
    """

    def __init__(self, modes: Modes, forget: Reversal) -> None:
        self.report: R | None = None
        self._forget: Reversal = forget
        self._open = True
        self._failure: list[Reversal] = []
        self._unused: list[Reversal] = []
        self._modes = modes

    def if_failed(self, *reversals: Reversal) -> None:
        """Call these if the step fails, the last one first, and before what was given before."""
        self._failure.extend(reversals)

    def if_unused(self, *reversals: Reversal) -> None:
        """Call these if the step fails or its gradients are not used, in the same order."""
        self._unused.extend(reversals)

    def commit(self) -> None:
        """Keep all that the step has changed, and release what would undo it."""
        self._open = False
        self.report, self._failure, self._unused = None, [], []
        self._forget = _do_nothing

    def drop(self) -> None:
        """Undo what a backward pass without an update has changed in the method itself."""
        if not self._open:
            return
        if self.report is not None and self.report.skipped is None:
            with _delayed_interrupts():
                for reversal in reversed(self._unused):
                    reversal()
        self.commit()

    def undo(self) -> None:
        """Undo all that the step has changed so far."""
        _closure_runs.set(False)
        self._modes.restore()
        with _delayed_interrupts():
            for reversal in (*reversed(self._failure), *reversed(self._unused)):
                reversal()

    def fail(self) -> None:
        """Undo the step, unless it is committed, and close the transaction."""
        if self._open:
            self.undo()
            self._forget()
            self.commit()


def _do_nothing() -> None:
    pass


@final
class running_closure:  # noqa: N801  # used as a function, and a class is quicker than a generator
    """Note that a closure runs, and raise if it back-propagates; if it has disabled gradients, enable them again.

    Args:
        parameters: the parameters whose gradients it must leave alone.
    """

    def __init__(self, parameters: Sequence[Tensor] = ()) -> None:
        self._parameters = parameters

    def __enter__(self) -> None:
        self._gradients, self._enabled = [*map(_GRAD, self._parameters)], torch.is_grad_enabled()
        _closure_runs.set(True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        _closure_runs.set(False)
        if torch.is_grad_enabled() is not self._enabled:
            torch.set_grad_enabled(self._enabled)
        if kind is None:
            if any(map(is_not, map(_GRAD, self._parameters), self._gradients)):
                raise RuntimeError(_BACKWARD)
        elif isinstance(error, RuntimeError) and _raised_by_backward(error):
            raise RuntimeError(_BACKWARD) from error


def _raised_by_backward(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is torch.autograd.backward.__code__ for frame, _ in frames)


def check_outside_closure() -> None:
    """Raise inside of a closure, which is called several times per step."""
    if _closure_runs.get():
        raise RuntimeError("A closure should only compute losses. Found a call of a stepper inside of it.")


@contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until the body is done, in the thread that is interrupted by it."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(received[0])
