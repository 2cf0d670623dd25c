"""Gradients of the tasks while a model is trained: the numbers of a diagnosis that change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from torch import nn

from torchsims.diagnosis._geometry import cosines, norms, shares, total
from torchsims.steppers.probe import GradientProbe

__all__ = ["GradientMonitor", "GradientValues"]


@final
@dataclass(frozen=True)
class GradientValues:
    """Gradients of the tasks by the shared parameters on one batch; NaN for a task without a label.

    Attributes:
        norms: the lengths, by task.
        shares: the shares of the tasks in the sum of all lengths.
        cosines: by the first and the second task of every pair.

    Example:
        >>> GradientValues({"a": 1.0, "b": 3.0}, {"a": 0.25, "b": 0.75}, {"a": {"b": -0.5}}).cosines["a"]["b"]
        -0.5
    """

    norms: Mapping[str, float]
    shares: Mapping[str, float]
    cosines: Mapping[str, Mapping[str, float]]


@final
class GradientMonitor:
    """Measures the gradients of all tasks on a batch without a trace: training goes on as if it had not been there.

    One forward and m backward passes.

    Args:
        model: a module, plain or inside `DistributedDataParallel`.
        shared: names of modules or parameters, if not all that tasks share.
        names: names of the tasks, if the closure has numbers instead.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(4, 2)
        >>> monitor = GradientMonitor(model, names=["a", "b"])
        >>> values = monitor(lambda model, x: (model(x) - 1).square().mean(0), torch.randn(8, 4))
        >>> sorted(values.shares), model.weight.grad
        (['a', 'b'], None)
    """

    def __init__(
        self, model: nn.Module, *, shared: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> None:
        self._probe = GradientProbe(model, shared=shared)
        self._names = names

    def __call__(self, task_losses: Callable[..., Any], *micro_batches: Any, scale: float = 1.0) -> GradientValues:
        """Return what is found on a batch, in one or several parts; ``scale`` is that of a gradient scaler."""
        with self._probe as probe:
            found = probe.measure(task_losses, *micro_batches, scale=scale)
        gramian = total(found.shared.values(), len(found.tasks))
        names = found.tasks if self._names is None else tuple(self._names)
        length, cosine = norms(gramian), cosines(gramian).tolist()
        return GradientValues(
            norms=dict(zip(names, length.tolist(), strict=True)),
            shares=dict(zip(names, shares(length).tolist(), strict=True)),
            cosines={a: {names[j]: cosine[i][j] for j in range(i + 1, len(names))} for i, a in enumerate(names[:-1])},
        )
