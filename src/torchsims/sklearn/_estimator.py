"""The estimator: one network for all columns of ``y``."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped]
from sklearn.metrics import r2_score  # type: ignore[import-untyped]
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.metaestimators import available_if  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from torchsims.data.tables import Kind, is_missing
from torchsims.sklearn._fit import Fit
from torchsims.sklearn._labels import names_of, read_columns, read_targets

AT_ONCE = 1 << 14  # rows of a prediction


def _predicts_classes(estimator: "MultiTaskEstimator") -> bool:
    check_is_fitted(estimator)
    return any(target.kind == "class" for target in estimator.targets_)


@final
class MultiTaskEstimator(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A perceptron with one head per target, trained on losses in native units by any method.

    Features and numeric targets are standardised inside. The loss of a number is its mean squared error in the unit of
    ``y``, that of a class its cross-entropy: the losses live on different scales, which SIMS does not notice. The rate
    rises for the first tenth of the steps and then falls to zero. Rows without any label are left out. For
    scikit-learn it is a regressor; classes are predicted by their names, numbers in the unit of ``y``.

    Args:
        method: a name with options, ``"sims:tau=1"``, ``"ew"``, ``"gls"``, ..., or a method itself, ``GLS()``.
        target_types: ``"auto"``, ``"number"`` or ``"class"``, for all targets, or a list with one per target. With
            ``"auto"`` text, and a target with two distinct values, are classes; everything else are numbers.
        hidden: the widths of the hidden layers.
        epochs: passes through the training rows.
        batch_size: approximate number of rows per step; all batches have about the same size.
        learning_rate: peak learning rate of Adam.
        weight_decay: weight decay of Adam.
        random_state: seed of the initial weights and of the order of the rows.
        preference: how much a target matters, by its name; 1 for those not named. ``None`` for methods without one.

    Attributes:
        targets_: the targets, with means, standard deviations and classes.
        network_: in double precision.
        losses_: the mean loss of every target in every epoch, in native units, `epoch x target`.
        starved_: the names of the targets that were starved; each was warned of.
        n_features_in_: how many features there are.

    Example:
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import MinMaxScaler
        >>> X = np.random.default_rng(0).normal(size=(60, 3))
        >>> estimator = make_pipeline(MinMaxScaler(), MultiTaskEstimator(hidden=(8,), epochs=5, random_state=0))
        >>> search = GridSearchCV(estimator, {"multitaskestimator__method": ["sims", "ew"]}, cv=2)
        >>> search.fit(X, X[:, :2]).predict(X).shape
        (60, 2)
    """

    def __init__(
        self,
        method: Any = "sims",
        *,
        target_types: Kind | Sequence[Kind] = "auto",
        hidden: Sequence[int] = (256, 256),
        epochs: int = 30,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-6,
        random_state: Any = None,
        preference: Mapping[str, float] | None = None,
    ) -> None:
        self.method = method
        self.target_types = target_types
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.preference = preference

    def fit(self, X: Any, y: Any) -> "MultiTaskEstimator":  # noqa: N803  # scikit-learn calls it so
        """Train on features, `row x feature`, and targets, `row` or `row x target`, NaN or ``None`` where missing."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        features = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        columns, self._flat = read_columns(y)
        check_consistent_length(features, columns[0])
        self.targets_ = read_targets(names_of(y, len(columns)), columns, self.target_types)
        labels = [target.encode(column) for target, column in zip(self.targets_, columns, strict=True)]
        known = np.any([~np.isnan(label) if label.dtype.kind == "f" else label >= 0 for label in labels], axis=0)
        features, labels = features[known], [label[known] for label in labels]
        self._mean = features.mean(0)
        self._sd = np.where(features.min(0) < features.max(0), features.std(0), 1.0)
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):  # the global generator is the user's
            fit = Fit((features - self._mean) / self._sd, self.targets_, labels, self.hidden, seed)
            self.losses_, self.starved_ = fit.run(
                self.method, self.epochs, self.batch_size, self.learning_rate, self.weight_decay, self.preference
            )
        self.network_ = fit.network.double().eval()
        return self

    def _check_parameters(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate"):
            if not 0 < (value := getattr(self, name)) < float("inf"):
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        if not all(width >= 1 for width in self.hidden):
            raise ValueError(f"Parameter `hidden` should hold positive widths. Found `hidden = {self.hidden}`.")
        if not 0 <= (decay := self.weight_decay) < float("inf"):
            raise ValueError(f"Parameter `weight_decay` should not be negative. Found `weight_decay = {decay}`.")

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return numbers in the unit of y and classes by name, `row x target`, or `row` as y was."""
        outputs = self._outputs(X)
        found = [target.decode(out) for target, out in zip(self.targets_, outputs, strict=True)]
        if any(column.dtype.kind not in "f" for column in found):
            found = [column.astype(object) for column in found]
        return found[0] if self._flat else np.stack(found, axis=1)

    @available_if(_predicts_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> list[NDArray[np.float64]]:  # noqa: N803
        """Return the probabilities of the classes, `row x class`, of every target that is a class."""
        outputs = zip(self.targets_, self._outputs(X), strict=True)
        return [target.probabilities(out) for target, out in outputs if target.kind == "class"]

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the mean over the targets of R2 for numbers and accuracy for classes; missing rows do not count."""
        columns, _ = read_columns(y)
        scores = []
        for target, column, out in zip(self.targets_, columns, self._outputs(X), strict=True):
            known = ~is_missing(column)
            if known.sum() >= 2:  # less has no spread, and so no R2
                found = target.decode(out[known])
                right = column[known].astype(found.dtype)
                scores.append(r2_score(right, found) if target.kind == "number" else (right == found).mean())
        return float(np.mean(scores)) if scores else float("nan")

    def _outputs(self, X: Any) -> list[NDArray[np.float64]]:  # noqa: N803
        """Return what the network says, `row x output`, of every target."""
        check_is_fitted(self)
        features = validate_data(self, X, dtype=np.float64, reset=False)
        with np.errstate(over="ignore"):
            x = torch.from_numpy((features - self._mean) / self._sd)
        with torch.no_grad():
            outputs = torch.cat([self.network_(part) for part in torch.split(x, AT_ONCE)]).numpy()
        if (rows := np.flatnonzero(~np.isfinite(outputs).all(1))).size:
            column = int(x[rows[0]].abs().argmax())
            raise ValueError(
                f"Features should be near those of the training. Found {features[rows[0], column]:g} in row {rows[0]}, "
                f"column {column}."
            )
        return np.split(outputs, np.cumsum([target.outputs for target in self.targets_])[:-1], axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
