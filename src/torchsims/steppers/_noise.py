"""The random numbers of a step: captured once, replayed in every pass over the batch, restored if the step fails."""

import ctypes
import random
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
        self._numpy = _GlobalOfNumpy()

    def capture(self) -> Noise:
        """Capture the states of all generators."""
        host, python = torch.get_rng_state(), random.getstate()
        replays: list[Callable[[], Any]] = [
            partial(torch.set_rng_state, host),
            partial(random.setstate, python),
            self._numpy.capture(),
        ]
        for device in self._devices:
            module = torch.get_device_module(device)
            replays.append(partial(module.set_rng_state, module.get_rng_state(device), device))
        replays += [partial(set_state, get_state()) for get_state, set_state in map(_access, self.own)]
        return Noise(replays)


@final
class _GlobalOfNumpy:
    """The global generator of numpy, whose state takes numpy 100 microseconds to read and as many to set.

    Its memory tells in one whether it is unchanged. The memory does not hold the second of a pair of normal numbers,
    which is kept for the next call: where there is one, the state is read and set.
    """

    _WORDS = 625  # of the Mersenne twister: 624 and a position

    def __init__(self) -> None:
        self._state: dict[str, Any] | None = None
        self._memory = b""

    def capture(self) -> Callable[[], None]:
        memory = self._read_memory()
        if self._state is None or self._state["has_gauss"] or memory is None or memory != self._memory:
            self._state = np.random.get_state(legacy=False)
            self._memory = memory or b""
        state = self._state

        def replay() -> None:
            if state["has_gauss"] or memory is None or self._read_memory() != memory:
                np.random.set_state(state)

        return replay

    def _read_memory(self) -> bytes | None:
        """Return the memory of the generator, unless it is of another kind."""
        generator = np.random.mtrand.get_bit_generator()
        if not isinstance(generator, np.random.MT19937):
            return None
        return ctypes.string_at(generator.ctypes.state_address, 4 * self._WORDS)


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
