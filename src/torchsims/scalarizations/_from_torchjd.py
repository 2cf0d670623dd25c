"""Scalarizers of TorchJD as loss-level methods."""

from typing import Any, final

from torch import Tensor, nn

from torchsims._draws import Draws
from torchsims._extras import needs
from torchsims.scalarizations._base import Scalarization


def from_torchjd(scalarizer: nn.Module, *, seed: int = 0) -> Scalarization:
    """Return a `Scalarizer` of TorchJD, or your own subclass of it, as a loss-level method.

    :class:`~torchsims.Scalarized` calls this for such an object. The scalarizer gets the losses of the tasks with
    labels, in the order of the tasks; one with a fixed number of losses, such as `UW` or `Constant`, therefore needs a
    label for every task in every batch. Its random numbers are seeded, and its parameters and buffers are in the
    ``state_dict``; a state in other attributes is neither saved nor restored after a failed step. That is the case of
    TorchJD's `DWA` and `FAMO`: use those of this package instead.

    Example:
        >>> import torch
        >>> from torchjd.scalarization import GeometricMean
        >>> from_torchjd(GeometricMean())({"seg": torch.tensor(0.5), "depth": torch.tensor(200.0)})
        tensor(10.)
    """
    with needs("gradient"):
        from torchjd.scalarization import DWA, FAMO, Scalarizer

    if not isinstance(scalarizer, Scalarizer):
        raise TypeError(
            "The method should be one of `torchsims.scalarizations` or a `Scalarizer` of TorchJD. "
            f"Found {type(scalarizer).__name__}."
        )
    if isinstance(scalarizer, DWA | FAMO):
        name = type(scalarizer).__name__
        raise TypeError(
            "The scalarizer should keep its state in its `state_dict`. "
            f"Found TorchJD's `{name}`, which does not: use `torchsims.scalarizations.{name}`."
        )
    return _FromTorchJD(scalarizer, seed)


@final
class _FromTorchJD(Scalarization):
    def __init__(self, scalarizer: nn.Module, seed: int) -> None:
        super().__init__()
        self.scalarizer = scalarizer
        self.draws = Draws(seed)

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if losses.ndim != 1:
            raise ValueError(
                f"The losses of a `Scalarizer` should have one dimension. Found shape {tuple(losses.shape)}."
            )
        values = losses[labelled]
        if len(values) == 0:
            return losses.sum() * 0
        with self.draws.fork(losses.device, advance=self.training):
            objective: Tensor = self.scalarizer(values)
        return objective

    def get_extra_state(self) -> str:
        return type(self.scalarizer).__name__

    def set_extra_state(self, state: Any) -> None:
        if state != (name := type(self.scalarizer).__name__):
            raise ValueError(f"The state should be one of `{name}`. Found one of `{state}`.")
