"""What methods that use TorchJD share. It is imported when such a method is made, and not before."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

__all__ = ["Draws", "from_gramian", "with_unit_trace"]


def from_gramian(weighting: Callable[[Tensor], Tensor], gramian: Tensor) -> Tensor:
    """Return the weights of a Gramian, `k x k`, computed on the host in double precision.

    The matrix is small and the weightings read its entries one by one, for which an accelerator is the wrong place; and
    the solvers behind some take finite differences, for which single precision is too coarse.
    """
    return weighting(gramian.detach().to("cpu", torch.float64)).to(gramian)


def with_unit_trace(gramian: Tensor) -> Tensor:
    """Return the Gramian times the power of two that brings its trace into [1/2, 1).

    For methods whose weights do not depend on a common factor, but whose solvers take small Gramians for zero: a power
    of two is exact, so that the weights are the same to the last bit wherever these do not.
    """
    _, exponent = torch.frexp(gramian.diagonal().sum())
    return torch.ldexp(gramian, -exponent)


class Draws(nn.Module):
    """A seeded generator for code that draws from PyTorch's global ones, which are left as they were.

    Its state is in the ``state_dict``, and it draws the same on every rank.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        # Not a buffer: `.to(device)` would move it, and reading it back would wait for the device.
        self._state = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def on(self, device: torch.device, advance: bool) -> Iterator[None]:
        """Let the body draw from here, on the host and on ``device``.

        Args:
            device: where the body draws.
            advance: whether the next call draws anew.
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
