"""The modes around a step, read once: whether gradients and autocast are enabled."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import cache, partial
from typing import Any, final

import torch

__all__ = ["NOTHING", "Modes", "autocast_kinds"]

NOTHING = nullcontext()
"""A context that does nothing; it can be entered any number of times, and need not be made for each."""


@final
class Modes:
    """The modes of torch at some time; :meth:`now` returns them.

    Args:
        gradients: whether gradients are enabled.
        cached: whether autocast keeps the casts of parameters.
        kinds: the types of devices, whether autocast is enabled for them, and its dtype.

    Attributes:
        autocast: whether autocast is enabled for any device.
    """

    def __init__(self, gradients: bool, cached: bool, kinds: tuple[tuple[str, bool, torch.dtype], ...]) -> None:
        self._gradients, self._cached, self._kinds = gradients, cached, kinds
        self._blocks = [
            partial(torch.autocast, kind, dtype, cache_enabled=cached) for kind, enabled, dtype in kinds if enabled
        ]
        self.autocast = bool(self._blocks)

    @staticmethod
    def now(kinds: Sequence[str]) -> "Modes":
        """Return the modes as they are now, with autocast for those types of devices."""
        return _modes(
            torch.is_grad_enabled(),
            torch.is_autocast_cache_enabled(),
            tuple([(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]),
        )

    def for_step(self) -> AbstractContextManager[Any]:
        """Return a context with gradients, outside of the autocast blocks, which are meant for the closure."""
        if self._gradients and not self._blocks:
            return NOTHING
        return _Contexts([torch.enable_grad, *(partial(block, enabled=False) for block in self._blocks)])

    def for_closure(self) -> AbstractContextManager[Any]:
        """Return a context that enables autocast again for the closure, as it was around the step."""
        return _Contexts(self._blocks) if self._blocks else NOTHING

    def restore(self) -> None:
        """Enable gradients and autocast as they were, should a block with them be interrupted."""
        torch.set_grad_enabled(self._gradients)
        torch.set_autocast_cache_enabled(self._cached)
        for kind, enabled, dtype in self._kinds:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)


_modes = cache(Modes)  # most steps have those of the step before


def autocast_kinds(device: torch.device) -> tuple[str, ...]:
    """Return the types of devices whose autocast may be in use around a model: its own and the host."""
    return tuple(kind for kind in sorted({"cpu", device.type}) if torch.amp.is_autocast_available(kind))


@final
class _Contexts(AbstractContextManager[None]):
    """Enters contexts.

    A class and not a generator, which would leave them once more when an interrupted step has been undone.
    """

    def __init__(self, contexts: Sequence[Callable[[], AbstractContextManager[Any]]]) -> None:
        self._contexts = contexts
        self._stack = ExitStack()

    def __enter__(self) -> None:
        for context in self._contexts:
            self._stack.enter_context(context())

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
