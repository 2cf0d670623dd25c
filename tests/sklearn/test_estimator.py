"""The estimator is one of scikit-learn's, does not notice units, and is as good without rows that have no label."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone, is_regressor  # type: ignore[import-untyped]
from sklearn.compose import make_column_transformer  # type: ignore[import-untyped]
from sklearn.metrics import r2_score  # type: ignore[import-untyped]
from sklearn.model_selection import GridSearchCV, cross_val_score  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import OneHotEncoder, StandardScaler  # type: ignore[import-untyped]
from sklearn.utils.estimator_checks import parametrize_with_checks  # type: ignore[import-untyped]

from helpers.shared_data import shared
from torchsims.sklearn import MultiTaskEstimator

Array = npt.NDArray[Any]
QM9 = ("mu", "alpha", "homo", "lumo", "r2", "zpve", "u0", "u298", "h298", "g298", "cv")
ENERGIES = ("homo", "lumo", "zpve", "u0", "u298", "h298", "g298")


def small(**options: Any) -> MultiTaskEstimator:
    given = {"hidden": (16,), "epochs": 15, "batch_size": 32, "learning_rate": 1e-2, "random_state": 0, **options}
    return MultiTaskEstimator(**given)


def not_expected(estimator: Any) -> dict[str, str]:
    """Checks of scikit-learn that fail for every method with mini-batches, those of scikit-learn included."""
    reason = "a row that is repeated is in another batch than a row with a weight"
    return dict.fromkeys([f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")], reason)


@parametrize_with_checks(
    [small(epochs=30), small(epochs=30, target_types="class")], expected_failed_checks=not_expected
)  # type: ignore[untyped-decorator]
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    check(estimator)


def data(rows: int = 150) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4))
    return x, np.stack([1e5 * x[:, 0], 1e-4 * (x[:, 1] - x[:, 2])], axis=1)


def mixed(rows: int = 200) -> tuple[Array, Array]:
    """A number, three classes by name, and two by number, each with missing values."""
    x, y = data(rows)
    found = np.empty((rows, 3), dtype=object)
    found[:, 0] = y[:, 0]
    found[:, 1] = np.where(x[:, 0] > 0.5, "high", np.where(x[:, 0] < -0.5, "low", "middle"))
    found[:, 2] = (x[:, 3] > 0).astype(float)
    found[::5, 0], found[1::5, 1], found[2::5, 2] = np.nan, None, np.nan
    return x, found


def test_numbers_and_classes_are_predicted_side_by_side() -> None:
    x, y = mixed()
    estimator = small(epochs=40).fit(x, y)
    assert [target.kind for target in estimator.targets_] == ["number", "class", "class"]
    found = estimator.predict(x)
    assert found.shape == y.shape
    assert set(found[:, 1]) == {"high", "low", "middle"}
    assert set(found[:, 2]) == {0.0, 1.0}
    assert estimator.score(x, y) > 0.9
    three, two = estimator.predict_proba(x)
    assert (three.shape, two.shape) == ((200, 3), (200, 2))
    assert three.sum(1) == pytest.approx(1)
    assert (np.array(["high", "low", "middle"])[three.argmax(1)] == found[:, 1]).all()
    assert (two.argmax(1) == found[:, 2]).all()


def test_the_score_is_the_mean_over_targets_of_the_known_rows() -> None:
    x, y = data()
    estimator = small().fit(x, y)
    assert estimator.score(x, y) == pytest.approx(r2_score(y, estimator.predict(x)), rel=1e-9)
    y[::2, 1] = np.nan
    known = ~np.isnan(y[:, 1])
    found = estimator.predict(x)
    parts = r2_score(y[:, 0], found[:, 0]), r2_score(y[known, 1], found[known, 1])
    assert estimator.score(x, y) == pytest.approx(np.mean(parts), rel=1e-9)


def test_one_target_may_have_one_dimension() -> None:
    x, y = data()
    flat, column = small().fit(x, y[:, 0]), small().fit(x, y[:, :1])
    assert flat.predict(x).shape == (150,)
    assert (flat.predict(x) == column.predict(x)[:, 0]).all()


def test_a_regressor_has_no_probabilities() -> None:
    estimator = small().fit(*data())
    assert is_regressor(estimator)
    assert not hasattr(estimator, "predict_proba")


@pytest.mark.parametrize("method", ["sims", "sims:tau=1:augment=0.1", "logmerit"])
def test_units_that_are_powers_of_two_change_no_bit(method: str) -> None:
    x, y = data()
    y[::4, 0] = np.nan
    one, other = small(method=method).fit(x, y), small(method=method).fit(x, y * [32.0, 2.0**-20])
    assert (other.predict(x) == one.predict(x) * [32.0, 2.0**-20]).all()
    assert (other.losses_ == one.losses_ * [32.0**2, 2.0**-40]).all()


def test_extreme_units_are_fine() -> None:
    x, y = data()
    assert small().fit(x, y * [1e80, 1e-80]).score(x, y * [1e80, 1e-80]) == pytest.approx(
        small().fit(x, y).score(x, y), abs=0.02
    )


@pytest.mark.parametrize("method", ["sims", "ew"])
def test_a_missing_label_is_as_good_as_a_missing_row(method: str) -> None:
    x, y = data()
    y = y[:, 0]
    y[::3] = np.nan
    known = ~np.isnan(y)
    masked, dropped = small(method=method).fit(x, y), small(method=method).fit(x[known], y[known])
    assert (masked.predict(x) == dropped.predict(x)).all()


def test_the_same_state_gives_the_same_network_and_leaves_the_global_one() -> None:
    import torch

    x, y = data()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, same, other = (small(random_state=state).fit(x, y).predict(x) for state in (1, 1, 2))
    assert (torch.rand(3) == expected).all()
    assert (one == same).all()
    assert (one != other).any()


@pytest.mark.parametrize("method", ["ew", "uw", "dwa", "gls", "stch", "famo", "imtll", "rlw", "foops", "logmerit"])
def test_every_kind_of_method_trains_it(method: str) -> None:
    x, y = mixed(60)
    estimator = small(method=method, epochs=3, learning_rate=1e-3).fit(x, y)
    assert np.isfinite(estimator.losses_).all()
    assert estimator.losses_.shape == (3, 3)


def test_it_works_in_a_pipeline_and_a_search() -> None:
    x, y = data(80)
    pipeline = make_pipeline(StandardScaler(), small(epochs=4))
    search = GridSearchCV(pipeline, {"multitaskestimator__method": ["sims", "ew"]}, cv=2).fit(x, y)
    assert search.best_params_["multitaskestimator__method"] in ("sims", "ew")
    assert len(cross_val_score(clone(pipeline), x, y, cv=3)) == 3


def test_categories_go_through_an_encoder_that_knows_strangers() -> None:
    x = np.array([["a"], ["b"], ["c"], ["a"], ["b"]] * 10, dtype=object)
    y = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [1.0, 11.0], [2.0, 21.0]] * 10)
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0]), sparse_threshold=0)
    pipeline = make_pipeline(columns, small()).fit(x, y)
    assert np.isfinite(pipeline.predict(np.array([["never seen"]], dtype=object))).all()


@pytest.mark.parametrize(
    ("change", "options", "sentence"),
    [
        ({"y": 7.0}, {}, r"Target `1` should take at least two values in the training rows. Found only 7.0."),
        ({"y": np.nan}, {}, r"Target `1` should take at least two values .* all are missing."),
        ({"first": np.inf}, {}, "Target `1` should be finite"),
        ({}, {"target_types": ["number"]}, r"should have a type for each of 2 targets. Found 1."),
        ({}, {"target_types": "float"}, "should be one of auto, number, class. Found 'float'"),
        ({}, {"method": "smis"}, r"There is no method `smis`. Did you mean `sims`"),
        ({}, {"epochs": 0}, r"Parameter `epochs` should be positive. Found `epochs = 0`."),
        ({}, {"batch_size": 0}, r"Parameter `batch_size` should be positive"),
        ({}, {"learning_rate": -1.0}, r"Parameter `learning_rate` should be positive"),
        ({}, {"weight_decay": -1.0}, r"Parameter `weight_decay` should not be negative"),
        ({}, {"hidden": (8, 0)}, r"Parameter `hidden` should hold positive widths"),
    ],
)
def test_bad_input_is_named(change: dict[str, float], options: dict[str, Any], sentence: str) -> None:
    x, y = data(30)
    if "y" in change:
        y[:, 1] = change["y"]
    if "first" in change:
        y[0, 1] = change["first"]
    with pytest.raises(ValueError, match=sentence):
        small(**options).fit(x, y)


def test_text_is_no_number() -> None:
    x, y = mixed(60)
    with pytest.raises(ValueError, match=r"Target `1` should hold numbers. Found '\w+'"):
        small(target_types="number").fit(x, y)


def test_a_data_frame_names_its_targets() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = data(60)
    frame = pandas.DataFrame({"energy": y[:, 0], "size": pandas.array([1, None] * 30, dtype="Int64")})
    with pytest.raises(ValueError, match=r"Target `size` should take at least two values .* Found only 1"):
        small().fit(x, frame)
    frame["size"] = pandas.array([1, None, 2, 3, 4] * 12, dtype="Int64")
    assert [target.name for target in small(epochs=1).fit(x, frame).targets_] == ["energy", "size"]
    with pytest.raises(ValueError, match=r"should have distinct names. Found `energy` twice"):
        small().fit(x, frame[["energy", "energy"]])


def test_a_series_names_its_target() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = data(60)
    with pytest.raises(ValueError, match=r"Target `price` should take at least two values"):
        small().fit(x, pandas.Series(np.ones(60), name="price"))
    for name, known in (("price", "price"), (None, "0"), (7, "7")):
        model = small(epochs=1).fit(x, pandas.Series(y[:, 0], name=name))
        assert [target.name for target in model.targets_] == [known]


def test_a_preference_lowers_the_loss_of_its_target() -> None:
    """One hidden unit cannot serve two unrelated targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 2))
    y = x * [1e4, 1e-3] + rng.normal(size=x.shape) * [3e3, 3e-4]
    for method in ("sims:tau=0.3", "logmerit:tau=0.3"):
        options: dict[str, Any] = {"method": method, "hidden": (1,), "epochs": 20}
        less, more = (small(preference={"0": p}, **options).fit(x, y).losses_[-1] for p in (0.25, 4.0))
        assert more[0] < less[0]
        assert more[1] > less[1]
    with pytest.raises(ValueError, match=r"There is no target `nought`\. The names are 0, 1\."):
        small(preference={"nought": 2.0}).fit(x, y)
    with pytest.raises(ValueError, match=r"Method `ew` has no preference\. Found one for \['0'\]\."):
        small(method="ew", preference={"0": 2.0}).fit(x, y)


def test_a_batch_without_labels_of_a_task_is_no_obstacle() -> None:
    x, y = data(100)
    y[3:, 1] = np.nan  # three labels, in at most three of the batches
    estimator = small(batch_size=10, epochs=5).fit(x, y)
    assert np.isfinite(estimator.predict(x)).all()


def qm9(rows: int) -> tuple[Array, Array]:
    file = np.load(shared("qm9_14k/qm9_14k_feats.npz"))
    x = np.concatenate([np.unpackbits(file["fp_packed"], axis=1), file["desc"]], axis=1).astype(np.float64)
    return x[:rows], file["y"][:rows, [list(file["targets"]).index(name) for name in QM9]]


def test_energies_times_32_are_the_same_figures_to_the_bit() -> None:
    x, y = qm9(1200)
    units = np.array([32.0 if name in ENERGIES else 1.0 for name in QM9])
    options: dict[str, Any] = {"hidden": (64,), "epochs": 3, "random_state": 0}
    one = MultiTaskEstimator(**options).fit(x[:1000], y[:1000])
    other = MultiTaskEstimator(**options).fit(x[:1000], units * y[:1000])
    assert (other.predict(x) == units * one.predict(x)).all()
    assert other.score(x[1000:], units * y[1000:]) == one.score(x[1000:], y[1000:])
