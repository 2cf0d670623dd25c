"""Data frames and sparse matrices: a file and its data frame are understood in the same way."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.sparse import csr_array, random_array
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

import torchsims
from torchsims.data.tables import is_missing, read_frame, read_table
from torchsims.sklearn import MultiTaskEstimator
from torchsims.training import complete_config, train

pandas = pytest.importorskip("pandas")
Array = npt.NDArray[Any]


def small(**options: Any) -> MultiTaskEstimator:
    given = {"hidden": (16,), "epochs": 20, "batch_size": 32, "learning_rate": 1e-2, "random_state": 0, **options}
    return MultiTaskEstimator(**given)


def houses(rows: int = 300) -> Any:
    """Ids, zip codes, towns, dates, booleans, numbers with missing values, and targets that depend on them."""
    rng = np.random.default_rng(0)
    town, month = rng.integers(0, 4, rows), rng.integers(1, 13, rows)
    area, lift = rng.uniform(30, 200, rows), rng.integers(0, 2, rows).astype(bool)
    price = 3000 * area + 1e5 * town + 2e4 * lift + 1e3 * rng.normal(size=rows)
    return pandas.DataFrame(
        {
            "id": [f"H{i:04}" for i in range(rows)],
            "zip": 1000 + 7 * town,
            "town": np.array(["Rome", "Oslo", "N/A", "Bern"])[town],
            "listed": [f"2025-{m:02}-{d:02}" for m, d in zip(month, rng.integers(1, 29, rows), strict=True)],
            "lift": lift,
            "area": np.where(rng.random(rows) < 0.1, np.nan, area.round(2)),
            "rooms": pandas.array([None if i % 9 == 0 else int(a // 30) for i, a in enumerate(area)], dtype="Int64"),
            "price": price.round(),
            "sold": np.where(month < 6, "yes", "no"),
        }
    )


def test_a_file_and_the_frame_that_pandas_makes_of_it_are_the_same(tmp_path: Path) -> None:
    houses().to_csv(path := tmp_path / "houses.csv", index=False)
    for categories in ((), ("zip",)):
        file, frame = read_table(path, categories=categories), read_frame(pandas.read_csv(path), categories=categories)
        assert list(file) == list(frame)
        for name, column in file.items():
            assert column.dtype == frame[name].dtype, name
            assert (is_missing(column) == is_missing(frame[name])).all(), name
            known = ~is_missing(column)
            assert (column[known] == frame[name][known]).all(), name
    assert {name: column.dtype.kind for name, column in frame.items()}["listed"] == "M"


def test_types_of_data_frames_are_kept() -> None:
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, None, 3], dtype="Int64"),
            "flag": pandas.array([True, None, False], dtype="boolean"),
            "code": pandas.Categorical([7, 8, None]),
            "day": pandas.to_datetime(["2026-05-31 12:00", None, "2026-06-01 00:00"]),
            "mixed": [1, "a", None],
            "digits": ["01", "02", "03"],
        }
    )
    found = read_frame(frame)
    assert np.isnan(found["whole"][1])
    assert found["whole"][[0, 2]].tolist() == [1.0, 3.0]
    assert found["flag"].tolist() == ["True", None, "False"]
    assert found["code"].tolist() == ["7", "8", None]
    assert found["day"].astype(str).tolist() == ["2026-05-31", "NaT", "2026-06-01"]
    assert found["mixed"].tolist() == ["1", "a", None]
    assert found["digits"].tolist() == ["01", "02", "03"]  # a text is no number in a frame
    assert read_frame(frame, numbers=["digits"])["digits"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match=r"Column `mixed` should hold numbers. Found 'a'"):
        read_frame(frame, numbers=["mixed"])


def test_text_categories_dates_and_missing_values_are_learned() -> None:
    frame = houses()
    x, y = frame.drop(columns=["price", "sold"]), frame[["price", "sold"]]
    model = small(method="logmerit", epochs=60, categories=["zip"]).fit(x, y)
    scores = model.target_scores(x, y)
    assert scores["price"] > 0.95
    assert scores["sold"] > 0.95  # the month of the date alone says it
    assert model.score(x, y) == pytest.approx(np.mean(list(scores.values())))
    read = {column.name: (column.role, column.kind) for column in model.columns_}
    assert read["id"][0] == "left out"
    assert (read["zip"][1], read["listed"][1], read["area"][1]) == ("category", "date", "number")
    strangers = x.head(3).assign(town=["Paris", None, "Oslo"], area=[None, 50.0, 60.0])
    assert np.isfinite(model.predict(strangers)[:, 0].astype(float)).all()
    with pytest.raises(ValueError, match=r"There is no column `zap`. Did you mean `zip`"):
        small(categories=["zap"]).fit(x, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(x.rename(columns={"area": "size"}))


@pytest.mark.parametrize(("kind", "name"), [("categories", "zip"), ("dates", "listed"), ("numbers", "id")])
def test_one_column_may_be_named_without_a_list(kind: str, name: str) -> None:
    frame = houses(40).assign(id=[str(i) for i in range(40)])
    x, y = frame.drop(columns=["price", "sold"]), frame["price"]
    one, other = (small(epochs=1, **{kind: names}).fit(x, y) for names in (name, [name]))
    assert one.columns_ == other.columns_
    assert (one.predict(x) == other.predict(x)).all()
    with pytest.raises(ValueError, match=r"There is no column `zap`"):
        small(**{kind: "zap"}).fit(x, y)


def test_columns_of_one_name_are_one_sentence() -> None:
    x = houses(40)[["area", "zip", "area"]]
    with pytest.raises(ValueError, match=r"The columns of `X` should have distinct names. Found `area` twice."):
        small().fit(x, houses(40)["price"])


def test_a_frame_of_numbers_is_its_array_and_columns_of_pipelines_have_names() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    x[::7, 1] = np.nan
    y = np.stack([x[:, 0], 1e3 * x[:, 2]], 1)
    frame = pandas.DataFrame(x, columns=["a", "b", "c"])
    model = small(epochs=3).fit(frame, y)
    assert (model.predict(frame) == small(epochs=3).fit(x, y).predict(x)).all()
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), small(epochs=2)).fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == ["a", "b", "c"]


def test_an_x_without_names_has_the_columns_of_the_fit_in_their_order() -> None:
    x = np.random.default_rng(0).normal(size=(60, 3))
    frame, y = pandas.DataFrame(x, columns=list("cab")), x[:, :2]
    forms = {"array": x, "frame": frame, "sparse": csr_array(x), "numbered": pandas.DataFrame(x)}
    first = small(epochs=1).fit(x, y).predict(x)
    for name in ("array", "frame", "numbered"):
        model = small(epochs=1).fit(forms[name], y)
        for other, form in forms.items():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                np.testing.assert_allclose(model.predict(form), first)
            assert bool(caught) == ((name == "frame") != (other == "frame"))  # as scikit-learn warns of names


def test_dates_are_no_target_and_one_number_is_one_layer() -> None:
    table = houses(60)
    listed = pandas.to_datetime(table["listed"])
    with pytest.raises(ValueError, match="Target `listed` should hold numbers or classes"):
        small().fit(table[["area"]], pandas.DataFrame({"area": table["area"], "listed": listed}))
    one, listed_one = (small(epochs=1, hidden=h).fit(table[["zip"]], table["area"]) for h in (8, (8,)))
    np.testing.assert_array_equal(one.predict(table[["zip"]]), listed_one.predict(table[["zip"]]))
    with pytest.raises(ValueError, match="Parameter `hidden` should hold positive widths"):
        small(hidden=0).fit(table[["zip"]], table["area"])


def test_a_run_predicts_from_a_data_frame_as_from_its_file(tmp_path: Path) -> None:
    houses(200).to_csv(path := tmp_path / "houses.csv", index=False)
    given = {"data": "table", "root": str(path), "tasks": ("price", "sold"), "categories": ("zip",), "epochs": 1}
    train(complete_config({**given, "model": "mlp:hidden=8"}), tmp_path / "run")
    predictor = torchsims.load(tmp_path / "run")
    file, frame = predictor.predict(str(path)), predictor.predict(pandas.read_csv(path))
    assert all((file[task] == frame[task]).all() for task in ("price", "sold"))


@pytest.mark.parametrize("classes", [False, True])
def test_a_sparse_matrix_is_trained_as_its_dense_array(classes: bool) -> None:
    x = random_array((120, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    dense = x.toarray()
    y = dense[:, :2] @ [[1e3, 1.0], [0.0, 1.0]]
    y = (y > np.median(y, 0)).astype(int) if classes else y
    one, other = small(epochs=5).fit(x, y), small(epochs=5).fit(dense, y)
    assert one.losses_ == pytest.approx(other.losses_, rel=1e-3)
    assert one.predict(dense).tolist() == one.predict(csr_array(dense)).tolist()
