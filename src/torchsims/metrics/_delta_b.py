"""The mean relative improvement over a baseline."""

from collections.abc import Mapping
from typing import Any


def delta_b(
    values: Mapping[str, Mapping[str, float]],
    baseline: Mapping[str, Mapping[str, float]],
    higher_is_better: Mapping[str, Mapping[str, bool]],
) -> float:
    r"""Return the mean relative improvement over a baseline, as a fraction (Maninis et al., CVPR 2019).

    .. math::
        \Delta_b = \frac1T \sum_{i=1}^T \frac1{K_i} \sum_{j=1}^{K_i}
        (-1)^{s_{ij}} \frac{M_{ij} - M^b_{ij}}{|M^b_{ij}|}

    - :math:`M_{ij}` is ``values[i][j]``, metric :math:`j` of task :math:`i` of the method.
    - :math:`M^b_{ij}` is ``baseline[i][j]``, that of the method to compare with. The paper divides by it without the
      absolute value, which is the same for its positive metrics; the absolute value keeps the sign of an improvement
      where a metric is negative.
    - :math:`s_{ij}` is 0 where ``higher_is_better[i][j]`` and 1 elsewhere.
    - :math:`T` is the number of tasks and :math:`K_i` the number of metrics of task :math:`i`: a task with many metrics
      counts as much as one with few.

    The three mappings name the same tasks and metrics. The result is NaN if a value is.

    Example:
        >>> baseline = {"seg": {"miou": 0.5}, "depth": {"abs_err": 0.4, "rel_err": 0.2}}
        >>> values = {"seg": {"miou": 0.55}, "depth": {"abs_err": 0.4, "rel_err": 0.1}}
        >>> higher_is_better = {"seg": {"miou": True}, "depth": {"abs_err": False, "rel_err": False}}
        >>> round(delta_b(values, baseline, higher_is_better), 3)  # the mean of +10 % and of the mean of 0 and +50 %
        0.175
    """
    _same_names("tasks", values, baseline, higher_is_better)
    improvements = []
    for task in values:
        found, base, better = values[task], baseline[task], higher_is_better[task]
        _same_names(f"metrics of task `{task}`", found, base, better)
        for metric in base:
            if base[metric] == 0:
                raise ValueError(f"The baseline of metric `{metric}` of task `{task}` should not be zero. Found 0.")
        relative = [(found[k] - base[k]) / abs(base[k]) * (1 if better[k] else -1) for k in found]
        improvements.append(sum(relative) / len(relative))
    return sum(improvements) / len(improvements)


def _same_names(what: str, values: Mapping[str, Any], baseline: Mapping[str, Any], better: Mapping[str, Any]) -> None:
    if not values:
        raise ValueError(f"Parameter `values` should name {what}. Found none.")
    for name, other in (("baseline", baseline), ("higher_is_better", better)):
        if set(other) != set(values):
            raise ValueError(
                f"Parameters `values` and `{name}` should name the same {what}. "
                f"Found {sorted(values)} and {sorted(other)}."
            )
