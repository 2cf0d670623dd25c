"""Models along a Pareto front: which preferences to train, what the models found, and which of them to take.

- :mod:`~torchsims.fronts.preferences`: preferences that are spread evenly, for any number of tasks.
- :mod:`~torchsims.fronts.points`: the trained models as points; the balanced one, and preferences that were not met.
- :mod:`~torchsims.fronts.plan`: the runs of a front, and their report.

Example:
    >>> from torchsims.fronts import preference_grid
    >>> preference_grid(["seg", "depth"], points=3, spread=4.0)
    [{'seg': 2.0, 'depth': 0.5}, {'seg': 1.0, 'depth': 1.0}, {'seg': 0.5, 'depth': 2.0}]
"""

from torchsims.fronts.plan import check_choice, choice_text, front_comparison
from torchsims.fronts.points import find_balanced, find_reversals, to_minimise
from torchsims.fronts.preferences import preference_grid

__all__ = [
    "check_choice",
    "choice_text",
    "find_balanced",
    "find_reversals",
    "front_comparison",
    "preference_grid",
    "to_minimise",
]
