"""The state of a stepper: how it is returned, checked and loaded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from torchsims._statistics import WithStatistics
from torchsims.normalizers import Normalizer
from torchsims.steppers._accumulation import Accumulating
from torchsims.steppers._notices import UNSAVED, Notice
from torchsims.steppers._passes import Tasks
from torchsims.steppers._states import check_parameters, check_type, copied_state

__all__ = ["Saved"]


class Saved(Accumulating):
    """What a stepper saves: all that a run needs to go on, except the model itself and the global random generators."""

    normalizer: Normalizer | None
    _names: Sequence[str]
    _theta: Sequence[nn.Parameter]
    _tasks: Tasks

    def __init__(self) -> None:
        super().__init__()
        self._unsaved = Notice(UNSAVED)

    def state_dict(self) -> dict[str, Any]:
        """Return all that a run needs to go on, except the model itself and the global random generators.

        It can be saved with `torch.save` and loaded with ``weights_only=True``. Between :meth:`backward` and
        :meth:`update` it is that of half a step. Micro-batches of :meth:`accumulate` are no part of it.
        """
        if self._accumulated:
            self._unsaved()
        return self._saved_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what :meth:`state_dict` returned; if it does not fit, nothing changes."""
        before = self._check_state(state)
        check_parameters(before["parameters"], state["parameters"])
        self._load_or_undo(self._load, state, before)
        self._drop_accumulated()

    def load_statistics(self, state: Mapping[str, Any]) -> None:
        """Load what a method knows of the losses, such as the first ones, from what :meth:`state_dict` returned.

        Optimizers and copies of the model stay as they are: this is for a new training that goes on where another one
        ended. If it does not fit, nothing changes.
        """
        self._load_or_undo(self._load_statistics, state, self._check_state(state))

    def _check_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the own state; raise an error unless another one is of the same kind."""
        if state.get("method") != type(self).__name__:
            raise ValueError(
                f"The state should be one of `{type(self).__name__}`. Found one of `{state.get('method', 'unknown')}`."
            )
        before: dict[str, Any] = copied_state(self._saved_state())
        if before.keys() != state.keys():
            raise ValueError(f"The state should have the entries {sorted(before)}. Found {sorted(state)}.")
        return before

    @staticmethod
    def _load_or_undo(
        load: Callable[[Mapping[str, Any]], None], state: Mapping[str, Any], before: Mapping[str, Any]
    ) -> None:
        try:
            load(state)
        except KeyError as error:
            load(before)
            raise ValueError(f"The state should be complete. Found no entry {error} in a part of it.") from error
        except BaseException:
            load(before)
            raise

    def _saved_state(self) -> dict[str, Any]:
        self._check_idle()
        return {
            "method": type(self).__name__,
            "parameters": {name: list(p.shape) for name, p in zip(self._names, self._theta, strict=True)},
            "tasks": {"names": list(self._tasks.names), "named": self._tasks.named},
            **self._state(),
        }

    def _statistics(self) -> list[WithStatistics]:
        """Return the modules that keep statistics."""
        return [] if self.normalizer is None else [self.normalizer]

    def _state(self) -> dict[str, Any]:
        if self.normalizer is None:
            return {}
        return {"normalizer": self.normalizer.state_dict(), "normalizer_type": type(self.normalizer).__name__}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._load_statistics(state)

    def _load_statistics(self, state: Mapping[str, Any]) -> None:
        names, expected = tuple(state["tasks"]["names"]), self._tasks.expected
        if names and expected is not None and names != expected:
            raise ValueError(f"The state should be one of the tasks {list(expected)}. Found one of {list(names)}.")
        self._tasks = Tasks(names, state["tasks"]["named"], expected)
        if self.normalizer is not None:
            check_type(self.normalizer, state["normalizer_type"])
            self.normalizer.load_state_dict(state["normalizer"])
