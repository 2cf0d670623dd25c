"""How good predictions are, target by target."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score  # type: ignore[import-untyped]

from torchsims.data.tables import Target, is_missing


def target_scores(
    targets: Sequence[Target],
    outputs: Sequence[NDArray[Any]],
    columns: Sequence[NDArray[Any]],
    weights: NDArray[np.float64] | None,
) -> dict[str, float]:
    """Return R2 or accuracy of every target, by its name; NaN where less than two rows are known."""
    scores = {}
    for target, out, column in zip(targets, outputs, columns, strict=True):
        known = ~is_missing(column)
        found = target.decode(out[known])
        right = column[known].astype(found.dtype)
        part = None if weights is None else weights[known]
        if known.sum() < 2:  # less has no spread, and so no R2
            score = nan
        elif target.kind == "number":
            score = r2_score(right, found, sample_weight=part)
        else:
            score = np.average(right == found, weights=part)
        scores[target.name] = float(score)
    return scores
