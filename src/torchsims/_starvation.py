"""Detects tasks to which a merit-function method gives almost no weight."""

from collections.abc import Mapping
from math import exp, isfinite, log
from typing import Any, final

__all__ = ["StarvationMonitor", "StarvationWarning"]

SHARE = 0.1  # share of an equal weight below which a task hardly moves the model
AHEAD = 0.1  # lead of the challenger in log loss: 10 % better, so that there is something to learn
MEMORY = 0.99  # decay of the running means: about 100 steps


class StarvationWarning(UserWarning):
    """A task gets almost no weight although the challenger shows that it could be learned.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore", category=StarvationWarning):
        ...     pass  # where it is meant
    """


@final
class StarvationMonitor:
    r"""Monitors the steps of SIMS or FOOPS for starved tasks.

    A merit function looks at the task with the least room to improve. Where the challenger is far ahead on a task, its
    weight goes to zero for the model as well, which never catches up. With :math:`\bar w_i` and :math:`\bar D_i` the
    running means over about 100 steps, a task is starved when

    .. math::
        m \, \bar w_i < 0.1 \quad \text{and} \quad \bar D_i > 0.1, \qquad D_i = \ln L_i(\theta) - \ln L_i(\theta')

    - :math:`w_i`: its weight, out of :math:`m` that sum to one;
    - :math:`L_i(\theta), L_i(\theta')`: its loss at the model and at the challenger.

    Weights of other methods sum to something else, and have no challenger: those are never starved here.

    Attributes:
        tasks: those found so far, in the order they were found.

    Example:
        >>> starved = StarvationMonitor()
        >>> for _ in range(300):
        ...     new = starved.update({"a": 0.999, "b": 0.001}, {"a": 1.0, "b": 9.0}, {"a": 0.9, "b": 1.0})
        >>> starved.tasks
        ['b']
        >>> print(starved.advice("b"))
        Task `b` is starved: its weight is 0.001 where 0.5 is equal, and the challenger is 9 times better. Give the
        method `augment`, such as 0.1, or a larger `tau`.
    """

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self._steps: dict[str, int] = {}
        self._weights: dict[str, float] = {}
        self._ahead: dict[str, float] = {}

    def update(
        self, weights: Mapping[str, float], losses: Mapping[str, float], challenger: Mapping[str, float]
    ) -> list[str]:
        """Update the running means with one step, and return the tasks that are newly found starved.

        Args:
            weights: the weight of every task, summing to one.
            losses: the loss of every task at the model; NaN where no element had a label, which changes nothing.
            challenger: the loss of every task at the challenger.
        """
        new = []
        for task, loss in losses.items():
            other = challenger[task]
            if not (loss > 0 and other > 0 and isfinite(loss) and isfinite(other)):
                continue
            self._steps[task] = steps = self._steps.get(task, 0) + 1
            rate = max(1 - MEMORY, 1 / steps)
            self._mix(self._weights, task, weights[task], rate)
            self._mix(self._ahead, task, log(loss) - log(other), rate)
            few = len(weights) * self._weights[task] < SHARE
            if steps * (1 - MEMORY) >= 1 and few and self._ahead[task] > AHEAD and task not in self.tasks:
                new.append(task)
        self.tasks += new
        return new

    def advice(self, task: str) -> str:
        """Return a sentence about a starved task, and one with the remedy."""
        weight, equal = self._weights[task], 1 / len(self._weights)
        return (
            f"Task `{task}` is starved: its weight is {weight:.2g} where {equal:.2g} is equal, and the challenger is "
            f"{exp(self._ahead[task]):.2g} times better. Give the method `augment`, such as 0.1, or a larger `tau`."
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state, for a checkpoint."""
        return {"tasks": self.tasks, "steps": self._steps, "weights": self._weights, "ahead": self._ahead}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what :meth:`state_dict` returned."""
        self.tasks = list(state["tasks"])
        self._steps = {task: int(steps) for task, steps in state["steps"].items()}
        self._weights, self._ahead = (
            {task: float(value) for task, value in state[name].items()} for name in ("weights", "ahead")
        )

    @staticmethod
    def _mix(means: dict[str, float], task: str, value: float, rate: float) -> None:
        before = means.get(task, value)
        means[task] = before + rate * (value - before)
