"""The optimizers of a method as the one optimizer that Lightning knows."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

from torch.optim import Optimizer

from torchsims.lightning._lightning_private import UnscaledOptimizer
from torchsims.lightning._wrapping import with_reduction
from torchsims.steppers import Stepper

__all__ = ["MethodOptimizer"]


@final
class MethodOptimizer(UnscaledOptimizer):
    """All optimizers of a method as one: what `MultiTaskModule.configure_optimizers` returns.

    Its parameter groups are those of the model's optimizer, then those of the challenger's, so that one scheduler
    changes the rates of both copies. Its state is that of the method, and Lightning saves it in every checkpoint.

    Args:
        method: the method.

    Attributes:
        method: the method.
        micro_batches: the micro-batches that wait for the rest of their group.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from torch.optim import SGD
        >>> from torch.optim.lr_scheduler import ExponentialLR
        >>> from torchsims import SIMS
        >>> from torchsims.lightning import MethodOptimizer
        >>> method = SIMS(torch.nn.Linear(1, 2), outer=partial(SGD, lr=0.1), inner=partial(SGD, lr=0.5))
        >>> ExponentialLR(MethodOptimizer(method), gamma=0.5).get_last_lr()
        [0.1, 0.5]
    """

    def __init__(self, method: Stepper[Any]) -> None:
        self.method = method
        self.micro_batches: list[Any] = []
        self._epoch: int | None = None
        self._stepping = False
        self._group_taken = False
        groups = self._groups()
        super().__init__([{"params": group["params"]} for group in groups], _defaults(method.optimizers[0]))
        self.param_groups = groups

    @property
    def stepping(self) -> bool:
        """Whether the trainer takes a step, so that the group of micro-batches is complete."""
        return self._stepping

    @contextmanager
    def taking_step(self) -> Iterator[None]:
        """Note that the trainer takes a step."""
        self._stepping, self._group_taken = True, False
        try:
            yield
        finally:
            self._stepping = False

    def take_group(self) -> list[Any]:
        """Return the micro-batches of the step, whose gradients are computed next."""
        self._group_taken = True
        group, self.micro_batches = self.micro_batches, []
        return group

    def enter_epoch(self, epoch: int) -> None:
        """Close the epoch of the last micro-batch if this one is in another."""
        if self._epoch is not None and epoch != self._epoch:
            if self.micro_batches:
                _warn(f"The epoch ended early. Found {len(self.micro_batches)} micro-batches without a step.")
                self.micro_batches = []
            self.method.end_epoch()
        self._epoch = epoch

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Call the closure, which computes the gradients, and update all copies."""
        if not self._stepping:
            raise RuntimeError(
                "The optimizers of a method should step in a step of the trainer. Found a call from elsewhere."
            )
        loss = None if closure is None else closure()
        if not self._group_taken:
            raise RuntimeError(
                "A `MultiTaskModule` should have `task_losses`, and a `training_step` that calls `super()` if it has "
                "one. Found one that does not."
            )
        with with_reduction(self.method.model):  # some methods look at the losses after the step
            self.method.update()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the method; warn if micro-batches wait for a step, which are not part of it."""
        if self.micro_batches:
            _warn(
                "A checkpoint should be saved after a step. "
                f"Found {len(self.micro_batches)} micro-batches of `accumulate_grad_batches` that wait for one: "
                "a run that goes on from it does not see them again."
            )
        return {"method": self.method.state_dict(), "epoch": self._epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned."""
        if state_dict.keys() != {"method", "epoch"}:
            raise ValueError(
                "The checkpoint should be one of a `MultiTaskModule`. "
                f"Found the state of an optimizer with the entries {sorted(state_dict)}."
            )
        self.method.load_state_dict(state_dict["method"])
        self._epoch = state_dict["epoch"]
        self.param_groups = self._groups()  # loading replaces them

    def _groups(self) -> list[dict[str, Any]]:
        return [group for each in self.method.optimizers for group in each.param_groups]


def _defaults(optimizer: Optimizer) -> dict[str, Any]:
    return dict(getattr(optimizer, "defaults", {}))  # a wrapper of an optimizer need not have them


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=3)
