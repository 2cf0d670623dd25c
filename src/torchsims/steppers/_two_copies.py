"""The base class of steppers with two copies: the challenger, the random iterate, and their state."""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from torchsims._statistics import FirstLosses, WithStatistics
from torchsims.steppers._base import Stepper
from torchsims.steppers._copies import Buffers, Challenger, JointChallenger, Lent, SequentialChallenger
from torchsims.steppers._global_batch import GlobalBatch
from torchsims.steppers._model_checks import check_copyable
from torchsims.steppers._notices import EQUAL_COPIES, Notice
from torchsims.steppers._optimizers import OptimizerFactory, drop, load_optimizer, make_optimizer, same_options
from torchsims.steppers._reports import MeritReport
from torchsims.steppers._torch_private import overwrite

__all__ = ["Evaluation", "TwoCopies"]

Evaluation: TypeAlias = Literal["sequential", "joint"]


class TwoCopies(Stepper[MeritReport]):
    r"""A stepper for :math:`\theta`, the model, and :math:`\theta'`, the challenger. See :class:`~torchsims.SIMS`."""

    evaluation: Evaluation
    perturb: float
    seed: int
    _first: FirstLosses | None = None  # what preferences and floors are relative to

    def _make_copies(self, outer: OptimizerFactory, inner: OptimizerFactory, keep_random_iterate: bool) -> None:
        """Make the challenger, both optimizers and the random iterate, when the options are set."""
        self._challenger = self._second_copy()
        if self.perturb:
            self._challenger.perturb(self.perturb, self.seed)
        self.outer = make_optimizer("outer", outer, zip(self._names, self._theta, strict=True), self.model)
        self.inner = make_optimizer(
            "inner", inner, zip(self._names, self._challenger.parameters, strict=True), self.model
        )
        self._steps = 0
        self._equal = Notice(EQUAL_COPIES)
        self._iterate = self._copy() if keep_random_iterate else None

    def challenger(self) -> AbstractContextManager[nn.Module]:
        """Let the model hold the challenger inside a ``with`` block, to evaluate or save it."""
        return Lent(self._challenger, self._check_idle)

    def random_iterate(self) -> AbstractContextManager[nn.Module]:
        """Let the model hold the random iterate inside a ``with`` block; needs ``keep_random_iterate=True``."""
        if self._iterate is None:
            raise RuntimeError(
                "Parameter `keep_random_iterate` should be True to keep one. Found `keep_random_iterate = False`."
            )
        return Lent(self._iterate, self._check_idle)

    def _warn_if_equal(self) -> None:
        """Warn in the first step if both copies would take the same steps forever."""
        if self._steps == 0 and same_options(self.outer, self.inner):
            pairs = zip(self._theta, self._challenger.parameters, strict=True)
            if all(torch.equal(self._ranks.local(p), self._ranks.local(q)) for p, q in pairs):
                self._equal()

    def _after_update(self) -> None:
        """Count a step and keep one of theta^0 ... theta^K, each with probability 1 / (K + 1): a reservoir of one."""
        self._steps += 1
        if self._iterate is not None and random.Random(f"{self.seed}:{self._steps}").random() < 1 / (self._steps + 1):
            self._iterate = self._copy()

    def _reversals(self) -> list[Callable[[], None]]:
        steps, iterate = self._steps, self._iterate

        def restore() -> None:
            self._challenger.restore_model()  # before its buffers are
            self._steps, self._iterate = steps, iterate

        return [*super()._reversals(), restore]

    def _copy(self) -> SequentialChallenger:
        return SequentialChallenger(self.model, self._theta, self._buffers, self._ranks)

    def _second_copy(self) -> Challenger:
        check_copyable(self.model, self._clean_name)
        if self.evaluation == "sequential":
            return self._copy()
        if self._ranks.wrapped:
            raise ValueError(
                "Parameter `evaluation` should be 'sequential' inside `DistributedDataParallel` or with `fully_shard`. "
                "Found `evaluation = 'joint'`, which reduces the gradients of a plain module itself."
            )
        check, shared = self._check_parameters, self._generators.own
        return JointChallenger(self.model, self._theta, self._buffers, self._ranks, check, shared)

    def _check_idle(self) -> None:
        super()._check_idle()
        if self._challenger.lent or (self._iterate is not None and self._iterate.lent):
            raise RuntimeError(
                "The model should hold its own parameters. "
                "Found those of the challenger or the random iterate: leave the `with` block first."
            )

    def _optimizers(self) -> list[Optimizer]:
        return [self.outer, self.inner]

    def _drop_gradients(self) -> None:
        super()._drop_gradients()
        drop(self._challenger.parameters)  # also those that the optimizer does not have

    def _replicated(self) -> list[tuple[str, nn.Parameter]]:
        theirs = zip(self._names, self._challenger.parameters, strict=True)
        return [*super()._replicated(), *((f"`{name}` of the challenger", p) for name, p in theirs)]

    def _all_parameters(self) -> Sequence[nn.Parameter]:
        return [*super()._all_parameters(), *self._challenger.parameters]

    def _all_buffers(self) -> list[Buffers]:
        return [*super()._all_buffers(), self._challenger.buffers]

    def _reference(self, here: GlobalBatch) -> Tensor:
        """Return the first losses in the units of the normalizer, `m`; empty if nothing is relative to them."""
        if self._first is None:
            return here.losses[:0]
        first: Tensor = self._first(here.adjusted * here.unit, here.mask)
        return first / here.unit

    def _statistics(self) -> list[WithStatistics]:
        return [*super()._statistics(), *([] if self._first is None else [self._first])]

    def _state(self) -> dict[str, Any]:
        state = {
            **super()._state(),
            "outer": self.outer.state_dict(),
            "inner": self.inner.state_dict(),
            "challenger": self._saved(self._challenger),
            "steps": self._steps,
        }
        if self._iterate is not None:
            state["random_iterate"] = self._saved(self._iterate)
        if self._first is not None:
            state["first_losses"] = self._first.state_dict()
        return state

    def _load(self, state: Mapping[str, Any]) -> None:
        super()._load(state)
        self._load_copy(state["challenger"], self._challenger)
        if self._iterate is not None:
            self._load_copy(state["random_iterate"], self._iterate)
        load_optimizer(self.outer, state["outer"])
        load_optimizer(self.inner, state["inner"])
        self._steps = state["steps"]

    def _load_statistics(self, state: Mapping[str, Any]) -> None:
        super()._load_statistics(state)
        if self._first is not None:
            self._first.load_state_dict(state["first_losses"])

    def _saved(self, copy: Challenger) -> dict[str, Tensor]:
        return dict(zip(self._tensor_names(), [tensor.detach() for tensor in copy.tensors()], strict=True))

    def _load_copy(self, saved: Mapping[str, Tensor], copy: Challenger) -> None:
        names, tensors = self._tensor_names(), copy.tensors()
        if set(saved) != set(names):
            raise ValueError(
                f"The state should be one of this model. Found other tensors: {sorted(set(saved) ^ set(names))}."
            )
        for name, tensor in zip(names, tensors, strict=True):
            if saved[name].shape != tensor.shape:
                raise ValueError(
                    f"Tensor `{name}` should have shape {tuple(tensor.shape)}. Found {tuple(saved[name].shape)}."
                )
        overwrite(tensors, [saved[name] for name in names])

    def _tensor_names(self) -> list[str]:
        return [*self._names, *map(self._clean_name, self._buffers.names)]
