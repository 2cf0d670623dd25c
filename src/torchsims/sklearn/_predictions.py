"""What a fitted estimator says about rows, and how good that is."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]
from torch import nn

from torchsims.data.tables import Target
from torchsims.sklearn._checks import check_weights
from torchsims.sklearn._inputs import Inputs, read_inputs
from torchsims.sklearn._labels import read_labels
from torchsims.sklearn._scores import target_scores
from torchsims.sklearn._validation import network_outputs, split_outputs


def _predicts_classes(estimator: "FittedNetwork") -> bool:
    check_is_fitted(estimator)
    return any(target.kind == "class" for target in estimator.targets_)


class FittedNetwork:
    """Predictions, probabilities and scores of an estimator, once a fit has set what they need."""

    targets_: list[Target]
    network_: nn.Module
    device: str
    _inputs: Inputs
    _flat: bool  # whether y has one dimension
    _floats: bool  # whether y holds floats alone
    _dtypes: list[np.dtype[Any]]  # of the predictions of every target

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return numbers in the unit of y and classes by name, `row x target`, or `row` as y was."""
        parts = zip(self._outputs(X), self.targets_, self._dtypes, strict=True)
        found = [target.decode(out).astype(dtype) for out, target, dtype in parts]
        if len({column.dtype for column in found}) > 1 and not self._floats:
            found = [column.astype(object) for column in found]
        return found[0] if self._flat else np.stack(found, axis=1)

    @available_if(_predicts_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return the probabilities of the classes, `row x class`; a list of them if y has two dimensions."""
        outputs = self._outputs(X)
        pairs = zip(self.targets_, outputs, strict=True)
        found = [target.probabilities(out) for target, out in pairs if target.kind == "class"]
        return found[0] if self._flat else found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the mean over the targets of R2 for numbers and accuracy for classes; missing rows do not count."""
        known = [score for score in self.target_scores(X, y, sample_weight).values() if not np.isnan(score)]
        return float(np.mean(known)) if known else float("nan")

    def target_scores(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, float]:  # noqa: N803
        """Return R2 or accuracy of every target, by its name; NaN where less than two rows are known."""
        outputs = self._outputs(X)
        weights = check_weights(sample_weight, len(outputs[0]))
        return target_scores(self.targets_, outputs, read_labels(y).columns, weights)

    def _outputs(self, X: Any) -> list[NDArray[np.float64]]:  # noqa: N803
        """Return what the network says, `row x output`, of every target."""
        check_is_fitted(self)
        rows = self._inputs.rows(read_inputs(self, X, reset=False))
        outputs = network_outputs(self.network_.to(self.device), rows).numpy()
        if (wrong := np.flatnonzero(~np.isfinite(outputs).all(1))).size:
            raise ValueError(f"Features should be near those of the training. Found others in row {wrong[0]}.")
        return split_outputs(outputs, self.targets_)
