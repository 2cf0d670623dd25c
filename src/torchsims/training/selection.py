r"""Model selection: which epoch is reported.

The default score compares epochs in a way that no unit changes: the mean over tasks of the logarithm of an error, which
is the first metric of the task, or one minus it for metrics whose best value is 1 (accuracy, mIoU, AUC, R2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan, log
from statistics import fmean
from typing import Any

from torch import Tensor

from torchsims.registry import choose
from torchsims.training.plain import as_type
from torchsims.training.run import Metrics

TINY = 1e-12  # an error of zero still has a logarithm


def validation_score(metrics: Metrics, higher_is_better: Mapping[str, Mapping[str, bool]], by: str = "mean") -> float:
    """Return a number that is lower for a better epoch, by the mean or a metric such as ``"depth abs_err"``.

    The name of a task stands for its first metric. It is infinite if a metric is NaN.

    Example:
        >>> higher = {"seg": {"miou": True}, "depth": {"abs_err": False}}
        >>> better, worse = ({"seg": {"miou": 0.5}, "depth": {"abs_err": error}} for error in (0.1, 0.2))
        >>> validation_score(better, higher) < validation_score(worse, higher)
        True
    """
    if by != "mean":
        named = {task: (task, next(iter(of))) for task, of in higher_is_better.items()}
        named |= {f"{task} {name}": (task, name) for task, of in higher_is_better.items() for name in of}
        task, name = named[choose("metric to select by", by, named)]
        value = metrics[task][name]
        return inf if isnan(value) else (-value if higher_is_better[task][name] else value)
    errors = []
    for task, values in metrics.items():
        name, value = next(iter(values.items()))
        errors.append(1.0 - value if higher_is_better[task][name] else value)
    return inf if any(map(isnan, errors)) else fmean(log(max(error, TINY)) for error in errors)


@dataclass
class Selection:
    """The best epoch so far.

    Example:
        >>> selection = Selection()
        >>> [selection.update(epoch, score, {}) for epoch, score in ((1, 0.5), (2, 0.7))], selection.epoch
        ([True, False], 1)
    """

    epoch: int = 0  # from 1; 0 before the first
    score: float = inf  # see :func:`validation_score`
    model: dict[str, Tensor] | None = None  # parameters and buffers after it, where they are needed

    def update(self, epoch: int, score: float, model: Mapping[str, Tensor]) -> bool:
        """Remember an epoch if it is better than all before it, or the first; return whether it is."""
        if self.epoch and not score < self.score:
            return False
        self.epoch, self.score = epoch, score
        self.model = {name: value.detach().clone() for name, value in model.items()}
        return True

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Selection":
        """Return the selection whose fields a checkpoint holds."""
        return cls(as_type(state["epoch"], int), as_type(state["score"], float), state["model"])
