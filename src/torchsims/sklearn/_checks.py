"""Parameters and weights that a fit can use."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length  # type: ignore[import-untyped]


def check_parameters(estimator: Any) -> None:
    """Raise an error for a parameter of the estimator that is out of range."""
    for name in ("epochs", "batch_size", "learning_rate", "n_iter_no_change"):
        if not 0 < (value := getattr(estimator, name)) < float("inf"):
            raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
    if not all(width >= 1 for width in layer_widths(estimator.hidden)):
        raise ValueError(f"Parameter `hidden` should hold positive widths. Found `hidden = {estimator.hidden}`.")
    if not 0 <= (decay := estimator.weight_decay) < float("inf"):
        raise ValueError(f"Parameter `weight_decay` should not be negative. Found `weight_decay = {decay}`.")
    if not 0 < (share := estimator.validation_fraction) < 1:
        raise ValueError(f"Parameter `validation_fraction` should be in (0, 1). Found `validation_fraction = {share}`.")
    try:
        torch.empty(0, device=estimator.device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"Parameter `device` should name a device of this machine. Found `device = {estimator.device}`."
        ) from error


def layer_widths(hidden: Any) -> tuple[int, ...]:
    """Return the widths of the hidden layers; one number is one layer, as for the perceptrons of scikit-learn."""
    return (int(hidden),) if isinstance(hidden, Integral) else tuple(hidden)


def check_distinct(what: str, names: Sequence[str]) -> None:
    """Raise an error for a name that several columns have."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The columns of `{what}` should have distinct names. Found `{twice}` twice.")


def check_weights(sample_weight: Any, rows: int) -> NDArray[np.float64] | None:
    """Return the weights of rows with a mean of one over those that count, or nothing if there are none."""
    if sample_weight is None:
        return None
    weights: NDArray[np.float64] = check_array(
        sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight"
    )
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar. Found shape {weights.shape}.")
    check_consistent_length(weights, np.empty(rows))
    if (weights < 0).any() or not weights.any():
        raise ValueError("Parameter `sample_weight` should not be negative, and not all zero.")
    scaled: NDArray[np.float64] = weights / weights[weights > 0].mean()
    return scaled


def check_eval_set(eval_set: Any) -> tuple[Any, Any]:
    """Return the features and the targets to validate on: a pair, or a list of one pair, as boosted trees take it."""
    pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
    if not (isinstance(pair, tuple | list) and len(pair) == 2):
        raise ValueError(f"Parameter `eval_set` should be a pair of features and targets. Found {type(pair).__name__}.")
    return pair[0], pair[1]
