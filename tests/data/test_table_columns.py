"""Columns of tables are what they are said to be: formats, dates, categories, identifiers and targets."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.houses import write_houses
from torchsims.data.tables import Features, Format, Target, is_identifier, read_frame, read_table, summarize

TEXT = "town,area,listed\nÅlesund,1.5,2024-02-29\nBergen,,2023-12-31\nÅlesund,3,\n"


@given(st.floats(-1e9, 1e9), st.sampled_from([("point", "comma"), ("comma", "point"), ("point", "space")]))
def test_a_number_with_separators_is_the_number(value: float, marks: tuple[str, str]) -> None:
    decimal, thousands = ({"point": ".", "comma": ",", "space": "\u202f"}[mark] for mark in marks)
    text = f"{value:,.3f}".translate({ord(","): thousands, ord("."): decimal})
    form = Format(decimal=marks[0], thousands=marks[1], currency="€+CHF")
    found = form.to_numbers([f"{text} €", f"CHF {text}", text])
    assert found is not None
    np.testing.assert_array_equal(found, round(value, 3))


@pytest.mark.parametrize("text", ["1,5", "12,34,567", "1,2345", "1.234.567", "3 EUR", "€"])
def test_what_is_not_grouped_by_three_is_no_number(text: str) -> None:
    assert Format(thousands="comma").to_numbers([text]) is None


def test_a_point_is_no_number_where_the_decimal_mark_is_a_comma() -> None:
    assert Format(decimal="comma").to_numbers(["1.5"]) is None


@pytest.mark.parametrize(("mark", "ending"), [(",", ".csv"), (";", ".csv"), ("\t", ".tsv"), ("|", ".txt")])
def test_separators_are_found(mark: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"table{ending}"
    path.write_text(TEXT.replace(",", mark), encoding="utf-8")
    found = read_table(path)
    assert list(found) == ["town", "area", "listed"]
    np.testing.assert_array_equal(found["area"], [1.5, np.nan, 3])


@pytest.mark.parametrize(("written", "option"), [("latin-1", "latin-1"), ("utf-8-sig", "utf-8")])
def test_encodings_are_read(written: str, option: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(TEXT, encoding=written)
    assert read_table(path, form=Format(encoding=option))["town"].tolist() == ["Ålesund", "Bergen", "Ålesund"]


def test_latin_1_read_as_utf_8_is_a_sentence_that_names_the_option(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(TEXT, encoding="latin-1")
    with pytest.raises(ValueError, match="encoding=latin-1"):
        read_table(tmp_path / "table.csv")


def test_every_kind_of_file_holds_the_same_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.0, None], "when": pd.to_datetime(["2024-02-29", None]), "town": ["a", None]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    first, *others = (read_table(path) for path in sorted(tmp_path.iterdir()))
    for other in others:
        assert {name: column.tolist() for name, column in other.items()}.keys() == first.keys()
        assert all(str(other[name].tolist()) == str(first[name].tolist()) for name in first)


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "table"])
def test_another_ending_is_a_sentence_about_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"should end in one of \.csv"):
        read_table(tmp_path / name)


def test_months_and_weekdays_are_those_of_the_calendar() -> None:
    days = np.datetime64("1968-02-27") + np.arange(2000) * 13
    features = Features.fit({"d": days}, ["d"])
    numbers, codes = features.encode({"d": np.append(days, np.datetime64("NaT"))})
    calendar = pd.DatetimeIndex(days)
    np.testing.assert_array_equal(codes[:-1], np.stack([calendar.month, calendar.day_of_week + 1], 1))
    assert codes[-1].tolist() == [0, 0]
    assert np.ptp(np.diff(numbers[:-1, 0])) < 1e-5
    assert features.codes == (13, 8)


@given(st.lists(st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)), min_size=1))
def test_dates_are_read_in_the_order_that_is_said(days: list[datetime.date]) -> None:
    for order, pattern in (("year", "%Y-%m-%d"), ("day", "%d.%m.%Y"), ("day", "%d/%m/%Y"), ("month", "%m/%d/%Y")):
        texts = np.array([day.strftime(pattern) for day in days], dtype=object)
        assert Format(date_order=order).to_dates(texts).tolist() == days


def test_a_date_that_may_be_two_days_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("d,x\n03/04/2024,1\n05/06/2024,2\n")
    with pytest.raises(ValueError, match="may begin with the day or the month: say `date_order`"):
        read_table(path, dates=["d"])
    path.write_text("d,x\n03/04/2024,1\n25/06/2024,2\n")  # only a day can be 25
    assert read_table(path, dates=["d"])["d"].astype(str).tolist() == ["2024-04-03", "2024-06-25"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"numbers": ["a"]}, "Column `a` of `.*` should hold numbers. Found 'x'"),
        ({"dates": ["a"]}, "Column `a` of `.*` should hold dates. Found '1'"),
    ],
)
def test_a_column_that_is_not_what_it_is_said_to_be(options: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,1\nx,2\n")
    with pytest.raises(ValueError, match=sentence):
        read_table(tmp_path / "t.csv", **options)


def test_many_categories_are_hashed_by_their_text_alone() -> None:
    names = np.array([f"c{i}" for i in range(1500)] * 2, dtype=object)
    features = Features.fit({"c": names}, ["c"])
    assert features.codes == (1025,)
    _, codes = features.encode({"c": names[::-1]})
    _, again = features.encode({"c": names})
    np.testing.assert_array_equal(codes[::-1], again)
    assert codes.min() >= 1
    assert len(np.unique(codes)) > 700  # of 1024: 1500 texts leave few empty


@pytest.mark.parametrize(
    ("name", "column", "is_one"),
    [
        ("code", np.array([f"H{i}" for i in range(50)], dtype=object), True),
        ("", np.arange(7, 57.0), True),  # what pandas writes as the index
        ("customer_id", 10.0 * np.arange(50), True),
        ("day", np.arange(7, 57.0), False),
        ("area", 10.0 * np.arange(50), False),
        ("x", np.linspace(0, 1, 50), False),
        ("zip", np.array(["a", "b"] * 25, dtype=object), False),
    ],
)
def test_identifiers_are_found_and_measurements_are_not(name: str, column: Any, is_one: bool) -> None:
    assert is_identifier(name, column) == is_one


def test_the_summary_says_what_looks_odd() -> None:
    mixed = np.array(["1", "2", "3", "unknown"] * 5, dtype=object)
    assert summarize("x", mixed, "feature").note == "mostly numbers, and texts such as 'unknown'"
    euros = np.array(["1,000 EUR", "2,500 EUR"] * 5, dtype=object)
    assert "read as categories" in summarize("x", euros, "feature").note
    assert summarize("town", np.array(["a", "b"] * 5, dtype=object), "feature").note == ""
    zips = np.array([1069.0, 94110.0, np.nan])
    assert "categories" in summarize("Zip_Code", zips, "feature").note
    assert summarize("Zip_Code", zips + 0.5, "feature").note == summarize("area", zips, "feature").note == ""
    assert summarize("area", np.array([100.0, 9.0, 30.0]), "feature").examples == ("9", "30", "100")


@pytest.mark.parametrize("odd", ["unknown", "352,415 EUR", "1.2.3"])
def test_a_target_of_numbers_and_text_is_no_silent_class(odd: str) -> None:
    column = np.array([str(i) for i in range(50)] + [odd], dtype=object)
    with pytest.raises(ValueError, match=f"Target `y` should hold numbers, or classes.*'{odd}'.*the type `class`"):
        Target.fit("y", column)
    assert Target.fit("y", column, "class").kind == "class"


def test_a_target_of_very_many_texts_has_to_be_said_to_be_classes() -> None:
    column = np.array([f"name {chr(97 + i % 26)}{i}" for i in range(200)], dtype=object)
    with pytest.raises(ValueError, match=r"at most 100 classes, unless its type is `class`\. Found 200"):
        Target.fit("y", column)
    assert Target.fit("y", column, "class").outputs == 200


def test_nullable_integers_are_numbers() -> None:
    column = pd.array([3, None, 5, 8], dtype="Int64").to_numpy(dtype=object)
    target = Target.fit("y", column)
    assert target.kind == "number"
    assert np.isnan(target.encode(column)).tolist() == [False, True, False, False]


def test_the_houses_are_understood(tmp_path: Path) -> None:
    form = Format(thousands="comma", currency="EUR")
    plain = read_table(write_houses(tmp_path / "a.csv", 300), categories=["zip"], form=form)
    german = Format(separator="semicolon", decimal="comma", thousands="point", currency="EUR")
    other = read_table(
        write_houses(tmp_path / "b.csv", 300, separator=";", decimal=","), categories=["zip"], form=german
    )
    assert plain["zip"].dtype == object
    assert plain["listed"].dtype.kind == "M"
    assert plain["price, EUR"].min() > 1000
    assert plain["remark"][0] == "quiet,\nsunny"
    for name, column in plain.items():
        np.testing.assert_array_equal(column, other[name])


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pd.Series([Decimal("1.5"), None]), [1.5, np.nan]),
        (pd.Series(pd.to_timedelta([36, None], unit="h")), [1.5, np.nan]),
        (pd.Series(pd.arrays.SparseArray([0.0, 2.0])), [0.0, 2.0]),
        (pd.Series(pd.period_range("2026-05", periods=2, freq="M")), ["2026-05", "2026-06"]),
        (pd.cut(pd.Series([1.0, 3.0]), [0, 2, 4]), ["(0, 2]", "(2, 4]"]),
    ],
    ids=["decimal", "duration", "sparse", "period", "interval"],
)
def test_types_of_pandas_are_numbers_or_categories(column: Any, found: list[Any]) -> None:
    np.testing.assert_equal(read_frame({"x": column})["x"].tolist(), found)


def test_a_column_of_lists_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Column `x` .* one value per row"):
        read_frame({"x": pd.Series([[1, 2], [3]])})


def test_prices_with_a_currency_are_no_identifiers() -> None:
    prices = np.array([f"{row}.000,50 EUR" for row in range(1, 40)], dtype=object)
    assert not is_identifier("price", prices)
    assert is_identifier("house", np.array([f"H-{row}" for row in range(40)], dtype=object))


def test_categories_without_their_leading_zeros_are_an_error_and_new_ones_are_not() -> None:
    features = Features.fit({"zip": np.array(["00165", "00166"] * 20, dtype=object)}, ["zip"])
    with pytest.raises(ValueError, match=r"Column `zip` .* such as '00165'\. Found '165': read the column as text"):
        features.encode({"zip": np.array([165.0, 166.0])})
    assert features.encode({"zip": np.array(["7", "8"], dtype=object)})[1].tolist() == [[0], [0]]


def test_dates_as_texts_are_days_in_every_kind_of_file(tmp_path: Path) -> None:
    frame = pd.DataFrame({"listed": ["2026-05-31", None, "2026-06-01"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    kinds = {read_table(tmp_path / name)["listed"].dtype.kind for name in ("a.csv", "a.parquet")}
    assert kinds == {"M"} == {read_frame(frame)["listed"].dtype.kind}
