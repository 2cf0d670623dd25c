"""The random numbers of a step: captured once, replayed in every pass over the batch, restored if the step fails."""

import ctypes
import random
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import nn

__all__ = ["Generator", "Noise", "RandomGenerators"]

Generator: TypeAlias = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
"""A random generator of one's own that a closure may draw from."""


@final
class Noise:
    """The captured states of random generators.

    Args:
        replays: functions that set each generator to its state.
    """

    def __init__(self, replays: Sequence[Callable[[], Any]]) -> None:
        self._replays = tuple(replays)
        self._fresh = True

    def rewind(self) -> None:
        """Go back to the captured states before a pass; before the first one, nothing has been drawn."""
        if not self._fresh:
            self.replay()
        self._fresh = False

    def replay(self) -> None:
        """Go back to the captured states."""
        for replay in self._replays:
            replay()


@final
class RandomGenerators:
    """The generators that a closure may draw from: PyTorch's, Python's and numpy's global ones, and those given.

    Args:
        model: the model; the generators of its accelerators, and those that its modules hold, count too.
        given: further generators.

    Attributes:
        own: the generators that are not global.
    """

    def __init__(self, model: nn.Module, given: Sequence[Generator]) -> None:
        self._devices = sorted({p.device for p in model.parameters() if p.device.type != "cpu"}, key=str)
        held = [each for module in model.modules() for each in vars(module).values() if isinstance(each, Generator)]
        self.own = list({id(each): each for each in (*given, *held)}.values())
        for generator in self.own:
            _access(generator)  # raises if it is not one
        self._python, self._numpy = _GlobalOfPython(), _GlobalOfNumpy()

    def capture(self) -> Noise:
        """Capture the states of all generators."""
        host = torch.default_generator
        replays: list[Callable[[], Any]] = [
            partial(host.set_state, host.get_state()),
            self._python.capture(),
            self._numpy.capture(),
        ]
        for device in self._devices:
            module = torch.get_device_module(device)
            replays.append(partial(module.set_rng_state, module.get_rng_state(device), device))
        for get_state, set_state in map(_access, self.own):
            replays.append(partial(set_state, get_state()))
        return Noise(replays)


_WORDS = 625  # of a Mersenne twister: 624 and a position


def _words_at(address: int) -> "ctypes.Array[ctypes.c_char]":
    return (ctypes.c_char * (4 * _WORDS)).from_address(address)


@final
class _GlobalOfPython:
    """The global generator of Python, whose state takes Python 20 microseconds to read.

    Its memory tells in one whether it is unchanged. Where the memory is, is a detail of CPython: it is compared with
    the state whenever that is read and, where they differ, never used.
    """

    def __init__(self) -> None:
        self._generator: Any = getattr(random.getstate, "__self__", None)
        inside = getattr(type(self._generator), "__basicsize__", 0) >= object.__basicsize__ + 4 * _WORDS
        self._memory: Any = _words_at(id(self._generator) + object.__basicsize__) if inside else None
        self._state: Any = None
        self._seen: tuple[bytearray, float | None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # another process has it elsewhere

    def capture(self) -> Callable[[], None]:
        if not self._shows(self._seen):
            self._state = random.getstate()
            self._seen = self._look()
        return partial(self._replay, self._seen, self._state)

    def _replay(self, seen: tuple[bytearray, float | None] | None, state: Any) -> None:
        if not self._shows(seen):
            random.setstate(state)

    def _shows(self, seen: tuple[bytearray, float | None] | None) -> bool:
        """Return whether the memory holds what was seen, and so does the place of the second of two normal numbers."""
        return seen is not None and seen[0] == self._memory and seen[1] == self._generator.gauss_next

    def _look(self) -> tuple[bytearray, float | None] | None:
        """Return what the memory holds, if it is the state that Python has returned."""
        _, (*words, position), spare = self._state
        seen = bytearray(struct.pack(f"{_WORDS}I", position, *words)), spare
        return seen if self._shows(seen) else None


@final
class _GlobalOfNumpy:
    """The global generator of numpy, whose state takes numpy 100 microseconds to read and as many to set.

    Its memory tells in one whether it is unchanged. The memory does not hold the second of a pair of normal numbers,
    which is kept for the next call: where there is one, the state is read and set.
    """

    def __init__(self) -> None:
        self._state: dict[str, Any] | None = None
        self._seen: bytearray | None = None
        self._generator: Any = None
        self._words: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()  # another process has it elsewhere

    def capture(self) -> Callable[[], None]:
        words = self._memory()
        if self._state is None or self._state["has_gauss"] or words is None or self._seen != words:
            self._state = np.random.get_state(legacy=False)
            self._seen = None if words is None else bytearray(words)
        return partial(self._replay, self._seen, self._state)

    def _replay(self, seen: bytearray | None, state: dict[str, Any]) -> None:
        if state["has_gauss"] or seen is None or seen != self._memory():
            np.random.set_state(state)

    def _memory(self) -> Any:
        """Return the memory of the generator, unless it is of another kind."""
        generator = np.random.mtrand.get_bit_generator()
        if generator is not self._generator:
            self._generator = generator
            known = isinstance(generator, np.random.MT19937)
            self._words = _words_at(generator.ctypes.state_address) if known else None
        return self._words


def _access(generator: Generator) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return the functions that get and set the state of a generator."""
    if isinstance(generator, torch.Generator):
        return generator.get_state, generator.set_state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state, generator.set_state
    if isinstance(generator, random.Random):
        return generator.getstate, generator.setstate
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    raise TypeError(
        "Parameter `generators` should hold generators of PyTorch, numpy or Python. "
        f"Found one of type `{type(generator).__name__}`."
    )
