"""Detects tasks that a merit-function method neglects."""

from collections.abc import Mapping
from math import exp, isfinite, log
from typing import Any, final

__all__ = ["StarvationWarning", "Starved"]

SHARE = 0.1  # of an equal weight: below it a task hardly moves the model
AHEAD = 0.1  # in log loss: the challenger does better by a tenth, so that there is something to learn
MEMORY = 0.99  # of the running means: about 100 steps


class StarvationWarning(UserWarning):
    """A task gets almost no weight although the challenger shows that it could be learned.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore", category=StarvationWarning):
        ...     pass  # where it is meant
    """


@final
class Starved:
    r"""Watches the steps of SIMS or FOOPS for tasks that are starved.

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
        >>> starved = Starved()
        >>> for _ in range(300):
        ...     new = starved.see({"a": 0.999, "b": 0.001}, {"a": 1.0, "b": 9.0}, {"a": 0.9, "b": 1.0})
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

    def see(
        self, weights: Mapping[str, float], losses: Mapping[str, float], challenger: Mapping[str, float]
    ) -> list[str]:
        """Look at one step, and return the tasks that are found starved for the first time.

        Args:
            weights: of every task, summing to one.
            losses: of every task at the model; NaN where no element had a label, and then the step says nothing of it.
            challenger: of every task at the challenger.
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
        """Return one sentence on a starved task, and one on the cure."""
        weight, equal = self._weights[task], 1 / len(self._weights)
        return (
            f"Task `{task}` is starved: its weight is {weight:.2g} where {equal:.2g} is equal, and the challenger is "
            f"{exp(self._ahead[task]):.2g} times better. Give the method `augment`, such as 0.1, or a larger `tau`."
        )

    def state(self) -> dict[str, Any]:
        """Return all of it, for a checkpoint."""
        return {"tasks": self.tasks, "steps": self._steps, "weights": self._weights, "ahead": self._ahead}

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        self.tasks = list(state["tasks"])
        self._steps, self._weights, self._ahead = (dict(state[name]) for name in ("steps", "weights", "ahead"))

    @staticmethod
    def _mix(means: dict[str, float], task: str, value: float, rate: float) -> None:
        before = means.get(task, value)
        means[task] = before + rate * (value - before)
