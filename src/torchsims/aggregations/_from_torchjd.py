"""Weightings and aggregators of TorchJD as gradient-level methods."""

from typing import Any, final

import torch
from torch import Tensor, nn

from torchsims._draws import Draws
from torchsims._extras import needs
from torchsims.aggregations._base import Aggregation, WeightedAggregation
from torchsims.aggregations._torchjd import from_gramian


def from_torchjd(method: Any, *, seed: int = 0) -> Aggregation:
    """Return any `Weighting` or `Aggregator` of TorchJD, or of your own on its base classes, as a method of ours.

    :class:`~torchsims.Aggregated` does this by itself with such an object. A `Weighting` sees the Gramian of the tasks
    with labels, and so does one inside a `GramianWeightedAggregator`; any other `Aggregator` sees their gradients. Give
    weightings of the gradients themselves as a `WeightedAggregator`.

    The draws of the object are seeded, and its parameters and buffers are in the ``state_dict``. What it keeps
    elsewhere, as TorchJD's `NashMTL` does, is neither saved nor taken back with a failed step, and may not fit when a
    task has no label: use :class:`NashMTL` and :class:`GradVac` instead.

    Example:
        >>> from torchjd.aggregation import TrimmedMean
        >>> from_torchjd(TrimmedMean(trim_number=1))(torch.tensor([[1.0], [2.0], [90.0]]))
        tensor([2.])
    """
    with needs("gradient"):
        from torchjd.aggregation import Aggregator, GramianWeightedAggregator, WeightedAggregator, Weighting

    name = type(method).__name__
    if isinstance(method, GramianWeightedAggregator):
        return _GramianWeighting(method.gramian_weighting, seed, name)
    if isinstance(method, Weighting):
        return _GramianWeighting(method, seed, name)
    if isinstance(method, WeightedAggregator):
        return _GradientAggregator(method.weighting, seed, name, weighted=True)
    if isinstance(method, Aggregator):
        return _GradientAggregator(method, seed, name, weighted=False)
    raise TypeError(
        f"The method should be one of `torchsims.aggregations`, or a weighting or aggregator of TorchJD. Found {name}."
    )


class _TorchJDObject(nn.Module):
    """An object of TorchJD, whose buffers may appear and change their shape in any step, and its draws."""

    def __init__(self, method: Any, seed: int) -> None:
        super().__init__()
        self.draws = Draws(seed)
        self._method = (method,)  # not a submodule, which could not load such buffers

    def __call__(self, matrix: Tensor, training: bool) -> Tensor:
        with self.draws.fork(matrix.device, training):
            result: Tensor = self._method[0](matrix)
        return result

    def get_extra_state(self) -> dict[str, Any]:
        return {"type": type(self._method[0]).__name__, "tensors": dict(self._method[0].state_dict())}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        (method,) = self._method
        if type(method).__name__ != state["type"]:
            raise ValueError(f"The state should be one of `{type(method).__name__}`. Found one of `{state['type']}`.")
        for path, tensor in state["tensors"].items():
            owner, _, name = path.rpartition(".")
            module = method.get_submodule(owner)
            if name in dict(module.named_parameters(recurse=False)):
                module.get_parameter(name).data.copy_(tensor)
            else:
                module.register_buffer(name, tensor.clone())


@final
class _GramianWeighting(WeightedAggregation):
    def __init__(self, weighting: Any, seed: int, name: str) -> None:
        super().__init__()
        self.held, self._given = _TorchJDObject(weighting, seed), name

    @property
    def name(self) -> str:
        return self._given

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        return from_gramian(lambda host: self.held(host, self.training), gramian)


@final
class _GradientAggregator(Aggregation):
    """A weighting of the gradients, which returns weights, or an aggregator, which returns the direction."""

    def __init__(self, method: Any, seed: int, name: str, weighted: bool) -> None:
        super().__init__()
        self.held, self._given, self._weighted = _TorchJDObject(method, seed), name, weighted

    @property
    def name(self) -> str:
        return self._given

    def combine(self, jacobian: Tensor, losses: Tensor, labelled: Tensor) -> tuple[Tensor, Tensor]:
        found = self.held(jacobian, self.training)
        return (found @ jacobian, found) if self._weighted else (found, torch.full_like(losses, torch.nan))
