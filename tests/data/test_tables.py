"""Tables: what is read is what was written, bad input is named, units do not matter."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.small_tables import write_table
from torchsims.data.tables import Features, Target, is_missing, read_table, split_rows
from torchsims.data.tables._csv import check_header

TABLE = "x,town,weight,kind,sold\n" + "".join(
    f"{i % 17},{'abc'[i % 3]}{'' if i % 7 else 'z'},{0.5 * (i % 17) + i % 3 if i % 5 else ''},{'uvw'[i % 3]},{i % 2}\n"
    for i in range(240)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path)


def test_gzip_and_parquet_read_as_the_csv_does(table: Path) -> None:
    pyarrow_csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    packed = table.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(table.read_bytes()))
    parquet.write_table(pyarrow_csv.read_csv(table), table.with_suffix(".parquet"))
    plain = read_table(table)
    for other in (read_table(packed), read_table(table.with_suffix(".parquet"))):
        assert list(other) == list(plain)
        for name, column in plain.items():
            assert other[name].dtype == column.dtype
            known = ~is_missing(column)
            assert (is_missing(other[name]) == ~known).all()
            assert (other[name][known] == column[known]).all()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "should have a line with the names of its columns"),
        ("a,b\n", "should have at least one row. Found none in"),
        ("a,b,a\n1,2,3\n", "should have distinct names. Found `a` twice"),
        ("a,b\n1,2\n\n3,4\n5\n", r"Line 5 of `.*t.csv` should have 2 fields. Found 1."),
        ('a,b\n"x\ny",2\n5,6,7\n', r"Line 4 of `.*t.csv` should have 2 fields. Found 3."),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_table(write_table(tmp_path, text, "t.csv"))


def test_a_column_is_numbers_if_every_value_is_one_or_missing(tmp_path: Path) -> None:
    rows = ["+1.5, 2 ,True,2020-01-01,x", "NA,-1e5,false,2020-01-02,", 'n/a,inf,,,"3,4"', ".5,NaN,None,null, y"]
    found = read_table(write_table(tmp_path, "\n".join(["a,b,c,d,e", *rows]) + "\n"))
    np.testing.assert_array_equal(found["a"], [1.5, np.nan, np.nan, 0.5])
    np.testing.assert_array_equal(found["b"], [2.0, -1e5, np.inf, np.nan])
    assert found["c"].tolist() == ["True", "false", None, "None"]
    assert found["d"].astype(str).tolist() == ["2020-01-01", "2020-01-02", "NaT", "NaT"]
    assert found["e"].tolist() == ["x", None, "3,4", " y"]
    assert read_table(tmp_path / "table.csv", categories=["a"])["a"].tolist() == ["+1.5", None, None, ".5"]


def test_a_text_after_many_numbers_makes_a_column_text(tmp_path: Path) -> None:
    path = write_table(tmp_path, "a,b\n" + "1,2.5\n" * 1_500_000 + "1,x\n")  # more than a block of pyarrow
    found = read_table(path)
    assert found["a"].dtype == np.float64
    assert found["b"][[0, -1]].tolist() == ["2.5", "x"]


def test_two_of_many_columns_with_one_name_are_found(tmp_path: Path) -> None:
    """In a time that does not grow with the square of their number."""
    names = [f"c{i}" for i in range(300_000)]
    check_header(names, tmp_path)
    with pytest.raises(ValueError, match="Found `c7` twice"):
        check_header([*names, "c7"], tmp_path)


def test_a_small_file_that_would_fill_the_memory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    for text in (b"a,b\n" + b"1" * 20_000_000, b"1" * 20_000_000):
        path.write_bytes(gzip.compress(text, 1))
        with pytest.raises(ValueError, match=r"A line of `.*t.csv.gz` should have fewer than 4194304 characters"):
            read_table(path)


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1" + bytes(50))
    with pytest.raises(ValueError, match=r"The file `.*t.parquet` cannot be read as Parquet: "):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("column", "kind", "sentence"),
    [
        (
            [3.0, 3.0, np.nan],
            "auto",
            "Target `y` should take at least two values in the training rows. Found only 3.0.",
        ),
        ([np.nan, np.nan], "auto", "Found none: all are missing."),
        ([1.0, np.inf, 2.0], "auto", "Target `y` should be finite. Found an infinite value."),
        (["1", "two", None], "number", "Target `y` should hold numbers. Found 'two'."),
        ([1.0, 2.0], "price", "The type of target `y` should be one of auto, number, class. Found 'price'."),
        ([-1e300, 1e300, 0.0], "number", "Target `y` should have a finite spread. Found values up to 1e.300."),
    ],
)
def test_a_bad_target_is_named(column: list[Any], kind: Any, sentence: str) -> None:
    values = np.array(column, dtype=object if isinstance(column[0], str) else None)
    with pytest.raises(ValueError, match=sentence):
        Target.fit("y", values, kind)


@pytest.mark.parametrize("value", [np.inf, 1e200])
def test_an_infinite_label_of_another_row_is_named(value: float) -> None:
    with pytest.raises(ValueError, match="Target `y` should be finite"):
        Target.fit("y", np.array([1.0, 2.0, 4.0])).encode(np.array([value]))


def test_an_infinite_feature_is_named() -> None:
    with pytest.raises(ValueError, match="Feature `x` should be finite"):
        Features.fit({"x": np.array([1.0, -np.inf])}, ["x"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", [3, 10, 1001])
def test_a_split_is_seeded_disjoint_and_whole(rows: int, seed: int) -> None:
    parts = split_rows(rows, seed)
    assert sorted(np.concatenate(list(parts.values()))) == list(range(rows))
    assert all(len(part) for part in parts.values())
    again, other = split_rows(rows, seed), split_rows(rows, seed + 100)
    assert all((parts[name] == again[name]).all() for name in parts)
    assert rows < 1000 or any(len(parts[n]) != len(other[n]) or (parts[n] != other[n]).any() for n in parts)


def test_two_rows_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="should have rows for training, validation and test"):
        split_rows(2)


def test_features_are_standardised_and_unknown_ones_have_code_zero() -> None:
    column = np.array(["a", "b", "a", None, "rare", "b"], dtype=object)
    features = Features.fit({"x": np.arange(6.0), "c": column, "constant": np.full(6, 0.1)}, ["x", "c", "constant"])
    numbers, codes = features.encode({"x": np.arange(6.0), "c": column, "constant": np.full(6, 0.1)})
    assert numbers[:, 0].mean() == pytest.approx(0, abs=1e-7)
    assert numbers[:, 0].std() == pytest.approx(1)
    assert np.abs(numbers[:, 1]).max() < 1e-6
    assert codes[:, 0].tolist() == [1, 2, 1, 0, 0, 2]
    strangers = np.array(["never", "", "zz"], dtype=object)
    assert features.encode({"x": np.zeros(3), "c": strangers, "constant": np.zeros(3)})[1].tolist() == [[0], [0], [0]]


@pytest.mark.parametrize("factor", [2.0**5, 2.0**-40, 2.0**90])
def test_a_target_in_other_units_is_stored_the_same_to_the_bit(factor: float) -> None:
    column = np.random.default_rng(0).normal(-411, 10, size=1000)
    one, other = Target.fit("u0", column), Target.fit("u0", factor * column)
    assert other.sd == factor * one.sd
    assert (other.encode(factor * column) == one.encode(column)).all()


def test_numbers_far_from_zero_keep_their_digits() -> None:
    column = 1.6e9 + np.random.default_rng(0).normal(size=1000)
    target = Target.fit("time", column)
    decoded = target.decode(target.encode(column)[:, None])
    assert np.abs(decoded - column).max() < 1e-5


def test_the_probabilities_of_one_logit_are_those_of_both_classes() -> None:
    np.testing.assert_allclose(Target.probabilities(np.array([[0.0], [np.log(3)]])), [[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("column", "kind"),
    [(["Rome", "Oslo", "Rome", "Bonn"], "class"), ([0.0, 1.0, np.nan, 0.0], "class"), ([3.0, 2.0, 4.0], "number")],
)
def test_text_and_two_distinct_values_are_classes(column: list[Any], kind: str) -> None:
    assert Target.fit("t", np.array(column, dtype=object if isinstance(column[0], str) else float)).kind == kind
