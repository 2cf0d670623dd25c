"""The estimator: one network for all columns of ``y``."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from itertools import chain
from typing import Any, final

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils import ClassifierTags, check_random_state  # type: ignore[import-untyped]
from sklearn.utils.validation import check_consistent_length  # type: ignore[import-untyped]
from torch import nn

from torchsims.data.tables import Kind, is_missing
from torchsims.sklearn._checks import check_eval_set, check_parameters, check_weights, layer_widths
from torchsims.sklearn._fit import Fit, Network, Plan, show_bar
from torchsims.sklearn._inputs import count_rows, fit_inputs, is_frame, named_columns, read_inputs, take_rows
from torchsims.sklearn._labels import Labels, predicted_dtype, read_labels
from torchsims.sklearn._predictions import FittedNetwork
from torchsims.sklearn._threads import few_threads
from torchsims.sklearn._validation import Validation, check_select_by, hold_out


@final
class MultiTaskEstimator(FittedNetwork, RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A perceptron with one head per target, trained on losses in native units by any method.

    Features and numeric targets are standardised inside. The loss of a number is its mean squared error in the unit of
    ``y``, that of a class its cross-entropy: the losses live on different scales, which SIMS does not notice. The rate
    rises for the first tenth of the steps and then falls to zero. Rows without any label are left out. X is an array
    with NaN where a value is missing, a sparse matrix, or a data frame, whose columns are read as those of a file are
    (:func:`torchsims.data.tables.read_frame`): numbers, texts and categories, dates; a column that names the rows is
    left out. Classes are predicted by their names, numbers in the unit of ``y``. For scikit-learn it is a regressor; if
    all targets are classes it is a classifier, before the fit if ``target_types`` says so.

    Args:
        method: a name with options, ``"sims:tau=1"``, ``"ew"``, ``"gls"``, ..., or a method itself, ``GLS()``.
        target_types: ``"auto"``, ``"number"`` or ``"class"``, for all targets, or a list with one per target. With
            ``"auto"`` text, booleans, the categorical type of data frames, two distinct values, and at most ten whole
            numbers from 0 or 1 without a gap, each in five rows at least, are classes; everything else are numbers.
        hidden: the widths of the hidden layers, or that of the only one.
        epochs: passes through the training rows.
        batch_size: approximate number of rows per step; all batches have about the same size.
        learning_rate: peak learning rate of Adam.
        weight_decay: weight decay of Adam.
        random_state: seed of the initial weights, of the order of the rows and of the validation rows.
        preference: how much a target matters, by its name; 1 for those not named. ``None`` for methods without one.
        categories: names of columns, or one name, that are categories though they hold numbers, such as zip codes.
        dates: names of columns that are dates.
        numbers: names of columns that are numbers though they hold text, or name the rows.
        early_stopping: whether to validate after each epoch, stop where that no longer improves, and keep the best
            epoch. By default the last epoch is kept: the rate has fallen to zero there, and no row is held out.
        validation_fraction: share of the rows that is held out for it, unless there is an ``eval_set``.
        n_iter_no_change: epochs without improvement after which it stops.
        select_by: what the best epoch is: the mean over targets of the log of their errors, in which no unit decides; a
            target; or one metric, ``"price mae"``.
        warm_start: whether another ``fit`` goes on with the network of the last one, its scales and its classes.
        verbose: whether to show a progress bar; lines where there is no terminal.
        device: where to train and to predict, ``"cpu"`` or ``"cuda"``.

    Attributes:
        targets_: the targets, with means, standard deviations and classes.
        classes_: the classes of a y of one dimension, or a list of the classes of every target that has some.
        network_: in double precision.
        losses_: the mean loss of every target in every epoch, in native units, `epoch x target`.
        validation_: metrics on the validation rows after every epoch, by target and metric; empty without such rows.
        best_epoch_: number of the epoch that is kept, from 1.
        n_iter_: number of epochs.
        columns_: how each column of a data frame was read; empty without one.
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

    classes_: Any
    _state: dict[str, Any] | None

    def __init__(
        self,
        method: Any = "sims",
        *,
        target_types: Kind | Sequence[Kind] = "auto",
        hidden: Sequence[int] | int = (256, 256),
        epochs: int = 30,
        batch_size: int = 128,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-6,
        random_state: Any = None,
        preference: Mapping[str, float] | None = None,
        categories: Sequence[str] | str | None = None,
        dates: Sequence[str] | str | None = None,
        numbers: Sequence[str] | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        select_by: str = "mean",
        warm_start: bool = False,
        verbose: bool = False,
        device: str = "cpu",
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
        self.categories = categories
        self.dates = dates
        self.numbers = numbers
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.select_by = select_by
        self.warm_start = warm_start
        self.verbose = verbose
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None) -> "MultiTaskEstimator":  # noqa: N803
        """Train on features, `row x feature`, and targets, `row` or `row x target`, NaN or ``None`` where missing.

        ``sample_weight`` says how much each row counts. ``eval_set`` is a pair of other features and targets to
        validate on after every epoch; without ``early_stopping`` it decides nothing.
        """
        goes_on = self.warm_start and hasattr(self, "network_")
        data, labels, weights = self._read(X, y, sample_weight, reset=not goes_on)
        network, held_out = self._start(data, labels, is_frame(X), goes_on), None
        if eval_set is not None:
            other, right = check_eval_set(eval_set)
            held_out = read_inputs(self, other, reset=False), read_labels(right)
            check_consistent_length(np.empty(count_rows(held_out[0])), held_out[1].columns[0])
        elif self.early_stopping:
            rest, some = hold_out(count_rows(data), self.validation_fraction, self._seed)
            held_out = take_rows(data, some), labels.take(some)
            data, labels = take_rows(data, rest), labels.take(rest)
            weights = None if weights is None else weights[rest]
        self._train(network, data, labels, weights, held_out)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "MultiTaskEstimator":  # noqa: N803
        """Train for one epoch at a constant learning rate, and go on from there in the next call.

        The first call decides the scales and the classes: ``classes`` are all of a single target, or a list with one
        entry per target, ``None`` for numbers.
        """
        first = not hasattr(self, "network_")
        data, labels, weights = self._read(X, y, sample_weight, reset=first)
        network = self._start(data, labels, is_frame(X), not first, classes)
        rows, plan = self._inputs.rows(data), self._plan(epochs=1, constant=True)
        fit = Fit(network, rows, self.targets_, labels.encode(self.targets_), weights, plan)
        with torch.random.fork_rng(devices=[]), few_threads(network, self.batch_size):
            trainer = fit.trainer()
            if self._state is not None:
                trainer.load_state_dict(self._state)
            fit.run(trainer)
        self._state = trainer.state_dict()
        self._finish(fit, trainer, None)
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Labels, Any]:  # noqa: N803
        """Return the rows that have a label and a weight."""
        check_parameters(self)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        data, labels = read_inputs(self, X, reset=reset), read_labels(y)
        rows = count_rows(data)
        check_consistent_length(np.empty(rows), labels.columns[0])
        known = np.any([~is_missing(column) for column in labels.columns], axis=0)
        weights = check_weights(sample_weight, rows)
        if weights is not None:
            known &= weights > 0
        if known.all():
            return data, labels, weights
        kept = np.flatnonzero(known)
        return take_rows(data, kept), labels.take(kept), None if weights is None else weights[kept]

    def _start(self, data: Any, labels: Labels, frame: bool, goes_on: bool, classes: Any = None) -> nn.Module:
        """Fit scales and classes, and return a new network; or a copy of the last one, which a failure spares."""
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if goes_on:
            check_select_by(self.targets_, self.select_by)
            labels.check_known(self.targets_)
            return deepcopy(self.network_)
        for name in ("network_", "classes_"):  # of another fit
            self.__dict__.pop(name, None)
        self._flat, self._floats = labels.flat, all(dtype == np.float64 for dtype in labels.dtypes)
        self.targets_ = labels.with_classes(classes).fit(self.target_types)
        self._dtypes = list(map(predicted_dtype, self.targets_, labels.dtypes))
        check_select_by(self.targets_, self.select_by)
        pairs = zip(self.targets_, self._dtypes, strict=True)
        if known := [np.asarray(t.classes).astype(d) for t, d in pairs if t.kind == "class"]:
            self.classes_ = known[0] if self._flat else known
        self._inputs, self.columns_ = fit_inputs(data, set(chain(*named_columns(self).values())), frame)
        self._state = None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seed)
            return Network(self._inputs, layer_widths(self.hidden), sum(target.outputs for target in self.targets_))

    def _train(self, network: nn.Module, data: Any, labels: Labels, weights: Any, held_out: Any) -> None:
        validation = None
        if held_out is not None:
            patience = self.n_iter_no_change if self.early_stopping else 0
            other = held_out[1].encode(self.targets_)
            validation = Validation(self._inputs.rows(held_out[0]), self.targets_, other, patience, self.select_by)
        rows, plan = self._inputs.rows(data), self._plan(self.epochs)
        fit = Fit(network, rows, self.targets_, labels.encode(self.targets_), weights, plan)
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=[]))  # the global generator is the user's
            stack.enter_context(few_threads(network, self.batch_size))
            trainer = fit.trainer(show_bar(stack, type(self).__name__) if self.verbose else ())
            fit.run(trainer, validation)
        self._finish(fit, trainer, validation)

    def _plan(self, epochs: int, *, constant: bool = False) -> Plan:
        names = ("method", "batch_size", "learning_rate", "weight_decay", "preference", "device")
        return Plan(epochs=epochs, seed=self._seed, constant=constant, **{name: getattr(self, name) for name in names})

    def _finish(self, fit: Fit, trainer: Any, validation: Validation | None) -> None:
        history = trainer.history
        self.losses_ = np.array([history.losses[target.name] for target in self.targets_]).T
        self.validation_, self.starved_ = history.validation, list(trainer.starved)
        self.n_iter_ = self.best_epoch_ = history.epochs
        if validation is not None and validation.selection.model:
            fit.network.load_state_dict(validation.selection.model)
            self.best_epoch_ = validation.selection.epoch
        self.network_ = fit.network.double().eval()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.classifier_tags = ClassifierTags()  # of a regressor, too: some targets may be classes
        types = [self.target_types] if isinstance(self.target_types, str) else self.target_types
        kinds = [target.kind for target in self.targets_] if hasattr(self, "targets_") else types
        if all(kind == "class" for kind in kinds):
            tags.estimator_type = "classifier"
        return tags
