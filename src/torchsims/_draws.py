"""Seeded random numbers for code that draws from the global generators of PyTorch, such as TorchJD."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Draws(nn.Module):
    """A seeded generator for code that draws from PyTorch's global generators, which are left as they were.

    Its state is in the ``state_dict``, and it draws the same on every rank.

    Args:
        seed: the seed.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        # Not a buffer: `.to(device)` would move it, and reading it back would wait for the device.
        self._state = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def fork(self, device: torch.device, advance: bool) -> Iterator[None]:
        """Let the body draw from this generator, on the host and on ``device``.

        Args:
            device: the device on which the body draws.
            advance: whether the next call draws other numbers.
        """
        generator = torch.Generator()
        generator.set_state(self._state)
        seed = int(torch.randint(2**62, (), generator=generator))
        module = None if device.type == "cpu" else torch.get_device_module(device)
        host, other = torch.get_rng_state(), None if module is None else module.get_rng_state(device)
        try:
            torch.default_generator.manual_seed(seed)
            if module is not None:
                module.manual_seed(seed)
            yield
        finally:
            torch.set_rng_state(host)
            if module is not None:
                module.set_rng_state(other, device)
        if advance:
            self._state = generator.get_state()

    def get_extra_state(self) -> Tensor:
        return self._state

    def set_extra_state(self, state: Tensor) -> None:
        self._state = state.cpu()
