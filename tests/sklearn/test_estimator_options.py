"""Weights, validation, going on, and classes: what users of scikit-learn expect of an estimator."""

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.base import is_classifier, is_regressor  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
from sklearn.metrics import accuracy_score, r2_score  # type: ignore[import-untyped]
from sklearn.model_selection import cross_val_score  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

from sklearn import config_context  # type: ignore[attr-defined]  # this folder is called so, too
from torchsims.sklearn import MultiTaskEstimator
from torchsims.sklearn._threads import few_threads

Array = npt.NDArray[Any]


def small(**options: Any) -> MultiTaskEstimator:
    given = {"hidden": (16,), "epochs": 4, "batch_size": 32, "learning_rate": 1e-2, "random_state": 0, **options}
    return MultiTaskEstimator(**given)


def data(rows: int = 128) -> tuple[Array, Array]:
    """A number in large units and one with little signal."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    return x, np.stack([1e4 * x[:, 0], x[:, 1] + 3 * rng.normal(size=rows)], axis=1)


def labels(x: Array, classes: int = 3) -> Array:
    return np.digitize(x[:, 0], np.linspace(-1, 1, classes - 1))


def test_weights_of_one_and_a_common_factor_change_no_bit() -> None:
    x, y = data()
    y[::5, 1] = np.nan
    plain = small().fit(x, y).predict(x)
    assert (small().fit(x, y, np.ones(128)).predict(x) == plain).all()
    some = np.random.default_rng(1).integers(1, 5, 128).astype(float)
    assert (small().fit(x, y, some).predict(x) == small().fit(x, y, 8 * some).predict(x)).all()


def test_a_weight_of_zero_removes_its_row_and_a_large_one_is_fitted_better() -> None:
    x, y = data()
    kept = np.arange(128) % 3 > 0
    assert (small().fit(x, y, kept).predict(x) == small().fit(x[kept], y[kept]).predict(x)).all()
    y[:, 0] = np.where(kept, 1.0, -1.0) * 1e4  # no feature says which: the weights decide
    up, down = (small().fit(x, y, np.where(kept, *pair)).predict(x)[:, 0].mean() for pair in ((9, 1), (1, 9)))
    assert up > 0 > down
    model = small().fit(x, y)
    assert model.score(x, y, sample_weight=y[:, 1] > 0) == pytest.approx(model.score(x[y[:, 1] > 0], y[y[:, 1] > 0]))


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [(-np.ones(128), "should not be negative"), (np.zeros(128), "not all zero"), (np.ones(5), "inconsistent")],
)
def test_bad_weights_are_named(weights: Array, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        small().fit(*data(), weights)


def test_the_best_epoch_is_kept_and_training_stops_after_it() -> None:
    x, y = data(256)
    train, other = (x[:128], y[:128]), (x[128:], y[128:])
    options: dict[str, Any] = {"epochs": 60, "early_stopping": True, "n_iter_no_change": 3, "select_by": "1 r2"}
    model = small(**options).fit(*train, eval_set=other)
    curve = model.validation_["1"]["r2"]
    assert model.best_epoch_ == np.argmax(curve) + 1
    assert model.n_iter_ == len(curve) == len(model.losses_) == model.best_epoch_ + 3 < 60
    assert r2_score(other[1][:, 1], model.predict(other[0])[:, 1]) == pytest.approx(max(curve), rel=1e-4)
    assert small(**options | {"select_by": "1"}).fit(*train, eval_set=other).best_epoch_ == model.best_epoch_
    with pytest.raises(ValueError, match=r"There is no metric to select by `2 r2`"):
        small(**options | {"select_by": "2 r2"}).fit(*train, eval_set=other)


def test_an_eval_set_decides_nothing_by_itself_and_a_fraction_is_held_out() -> None:
    x, y = data()
    watched = small().fit(x, y, eval_set=(x, y))
    assert (watched.predict(x) == small().fit(x, y).predict(x)).all()
    assert watched.validation_["0"]["r2"][-1] == pytest.approx(watched.target_scores(x, y)["0"], rel=1e-4)
    assert (watched.best_epoch_, watched.n_iter_) == (4, 4)
    assert small().fit(x, y, eval_set=[(x, y)]).validation_ == watched.validation_
    with pytest.raises(ValueError, match=r"`eval_set` should be a pair of features and targets. Found ndarray."):
        small().fit(x, y, eval_set=x)
    held = small(early_stopping=True, validation_fraction=0.25).fit(x, y)
    assert held.validation_.keys() == {"0", "1"}
    assert (held.predict(x) != watched.predict(x)).any()
    assert (held.predict(x) == small(early_stopping=True, validation_fraction=0.25).fit(x, y).predict(x)).all()
    with pytest.raises(ValueError, match=r"`validation_fraction` should be in \(0, 1\)"):
        small(validation_fraction=1.0).fit(x, y)


def test_a_warm_start_goes_on_with_the_network_and_its_scales() -> None:
    x, y = data()
    model = small(warm_start=True).fit(x, y)
    before = model.predict(x)
    model.set_params(learning_rate=1e-12).fit(10 * x, y + 1)  # other scales would change the predictions
    assert model.predict(x) == pytest.approx(before, rel=1e-4)
    model.set_params(learning_rate=1e-2, epochs=30).fit(x, y)
    assert model.losses_[-1][0] < small().fit(x, y).losses_[-1][0]
    with pytest.raises(ValueError, match=r"should have 2 targets. Found 1"):
        model.fit(x, y[:, 0])


def test_parts_are_fitted_one_after_the_other_even_from_a_pickle() -> None:
    x, y = data()
    one, other = small(), small()
    for part in range(4):
        rows = slice(32 * part, 32 * part + 32)
        one.partial_fit(x[rows], y[rows])
        other = pickle.loads(pickle.dumps(other.partial_fit(x[rows], y[rows])))
    assert (one.predict(x) == other.predict(x)).all()
    assert one.n_iter_ == len(one.losses_) == 4
    for _ in range(20):
        one.partial_fit(x, y)
    assert one.target_scores(x, y)["0"] > 0.9


def test_classes_of_later_parts_are_named_in_the_first() -> None:
    x, _ = data()
    y = labels(x)
    first = y < 2
    model = small().partial_fit(x[first], y[first], classes=[0, 1, 2]).partial_fit(x, y)
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"Target `0` should have the classes of the first fit. Found `2.0`"):
        small().partial_fit(x[first], y[first]).partial_fit(x, y)
    both = np.stack([1e3 * x[:, 1], y], 1)
    with pytest.raises(ValueError, match=r"an entry for each of 2 targets, `None` for numbers. Found 3"):
        small().partial_fit(x, both, classes=[0, 1, 2])
    assert small().partial_fit(x, both, classes=[None, [0, 1, 2]]).classes_[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("classes", [["no", "yes"], np.array(["no", "yes"]), [["no", "yes"]]])
def test_classes_of_one_target_need_no_list_around_them(classes: Any, flat: bool) -> None:
    x, _ = data(20)
    y = np.array(["yes", "no"] * 10, dtype=object)
    model = small().partial_fit(x, y if flat else y[:, None], classes=classes)
    assert np.ravel(model.classes_).tolist() == ["no", "yes"]


def test_one_target_of_numbers_has_no_classes_with_or_without_a_list() -> None:
    x, y = data(20)
    assert [small().partial_fit(x, y[:, :1], classes=c).targets_[0].kind for c in (None, [None])] == ["number"] * 2


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("missing", [False, True])
def test_classes_that_are_whole_numbers_are_integers_whatever_y_holds(start: int, missing: bool) -> None:
    x, numbers = data(60)
    y = np.arange(60) % 3 + float(start)
    y[7] = np.nan if missing else y[7]
    model = small(epochs=1).fit(x, y)
    assert model.classes_.tolist() == [start, start + 1, start + 2]
    assert model.classes_.dtype.kind == model.predict(x).dtype.kind == "i"
    assert small(epochs=1).fit(x, y[:, None]).predict(x).dtype.kind == "i"
    both = small(epochs=1).fit(x, np.stack([numbers[:, 0], y], 1))
    assert both.classes_[0].dtype.kind == "i"
    assert both.predict(x).dtype == np.float64  # beside fractions, as in y


def test_classes_that_are_fractions_stay_so() -> None:
    x, _ = data(20)
    model = small(epochs=1).fit(x, np.array([0.5, 2.0] * 10))
    assert model.classes_.tolist() == [0.5, 2.0]
    assert set(model.predict(x)) <= {0.5, 2.0}


@pytest.mark.parametrize("early_stopping", [False, True])
def test_an_unknown_metric_to_select_by_is_refused_even_where_none_is_selected(early_stopping: bool) -> None:
    x, y = data(20)
    model = small(select_by="foo", early_stopping=early_stopping)
    for fit in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=r"There is no metric to select by `foo`. The names are 0, "):
            fit(x, y)
    going_on = small(epochs=1, warm_start=True).fit(x, y).set_params(select_by="foo")
    with pytest.raises(ValueError, match="no metric to select by `foo`"):
        going_on.fit(x, y)


@pytest.mark.parametrize("names", [(0, 1, 2), (1, 2, 3), ("a", "b", "c")])
def test_a_fit_of_classes_alone_is_a_classifier(names: tuple[Any, ...]) -> None:
    x, _ = data(256)
    y = np.array(names)[labels(x)]
    model = small(epochs=20).fit(x, y)
    assert is_classifier(model)
    assert not is_regressor(model)
    assert model.classes_.tolist() == list(names)
    found = model.predict(x)
    assert found.dtype.kind == y.dtype.kind or found.dtype == object
    assert model.score(x, y) == pytest.approx(accuracy_score(y, found))
    assert model.score(x, y) > 0.8
    assert (model.classes_[model.predict_proba(x).argmax(1)] == found).all()
    sure = small(epochs=2, target_types="class")
    assert is_classifier(sure)  # before the fit, for folds with all classes and scorers of probabilities
    assert (cross_val_score(sure, x, y, cv=2, scoring="roc_auc_ovr") > 0.5).all()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (range(3), "class"),
        (range(1, 11), "class"),
        (range(11), "number"),  # too many
        ((0, 1, 3), "number"),  # a gap
        ((2, 3, 4), "number"),  # counts neither from 0 nor from 1
        ((0.0, 0.5, 1.0), "number"),
        ((0, 1), "class"),
    ],
)
def test_which_whole_numbers_are_classes(values: Any, kind: str) -> None:
    x, _ = data()
    y = np.resize(np.array(list(values)), 128)
    assert small(epochs=1).fit(x, y).targets_[0].kind == kind
    assert small(epochs=1, target_types="number").fit(x, y).targets_[0].kind == "number"
    rare = np.where(np.arange(128) < 4, y, y[0])  # a value in four rows is none
    if kind == "class" and len(set(rare)) > 2:
        assert small(epochs=1).fit(x, rare).targets_[0].kind == "number"


def test_scores_per_target_and_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = data()
    frame = pandas.DataFrame({"price": y[:, 0], "kind": pandas.Categorical(10 * labels(x))})
    model = small().fit(x, frame)
    assert [target.kind for target in model.targets_] == ["number", "class"]
    scores = model.target_scores(x, frame)
    assert list(scores) == ["price", "kind"]
    assert model.score(x, frame) == pytest.approx(np.mean(list(scores.values())))
    assert model.classes_[0].tolist() == [0, 10, 20]


def test_weights_are_routed_through_a_pipeline() -> None:
    x, y = data()
    weights = np.random.default_rng(1).uniform(0.5, 2, 128)
    with config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, small().set_fit_request(sample_weight=True)).fit(x, y, sample_weight=weights)
    direct = small().fit(StandardScaler().fit_transform(x), y, weights)
    assert (pipeline.predict(x) == direct.predict(StandardScaler().fit_transform(x))).all()


def test_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    small(verbose=True).fit(*data())
    assert "MultiTaskEstimator: 100 %" in capsys.readouterr().err
    small().fit(*data())
    assert capsys.readouterr().err == ""


def test_a_small_network_has_one_thread_and_all_are_back_after_it() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with few_threads(torch.nn.Linear(8, 8), 32):
            assert torch.get_num_threads() == 1
        with few_threads(torch.nn.Linear(4096, 4096), 32):
            assert torch.get_num_threads() == 3
        small(epochs=1).fit(*data())
        small().partial_fit(*data())
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_device_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(ValueError, match=r"`device` should name a device of this machine. Found `device = nowhere`."):
        small(device="nowhere").fit(*data())


def test_a_fit_that_fails_is_no_fit_and_spares_the_network_that_goes_on() -> None:
    x, y = data()
    model = small(warm_start=True).fit(x, y)
    before = model.predict(x)
    with pytest.raises(ValueError, match="There is no method `smis`"):
        model.set_params(method="smis").fit(x, y)
    assert (model.predict(x) == before).all()
    with pytest.raises(ValueError, match="There is no method `smis`"):
        model.set_params(warm_start=False).fit(x, y)
    with pytest.raises(NotFittedError):
        model.predict(x)
