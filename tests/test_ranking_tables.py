"""The statistics of the ranking in docs/results.md, beside the numbers of Demsar's paper."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCH)
    return import_module("ranking_tables")


def ranks_of(scores: Sequence[Sequence[float]]) -> Mapping[str, Mapping[str, list[float]]]:
    """Return ranks of one seed, by data set and method, from rows of scores."""
    return {f"data{i}": {f"method{j}": [score] for j, score in enumerate(row)} for i, row in enumerate(scores)}


CASES = [(4, 14, 1.25), (3, 10, 1.05), (5, 30, 1.11), (10, 20, 3.03)]


@pytest.mark.parametrize(("methods", "data", "difference"), CASES)
def test_critical_differences_are_those_of_the_published_table(
    tables: ModuleType, methods: int, data: int, difference: float
) -> None:
    """Demsar, JMLR 7 (2006), table 5a: q = 2.569, 2.343, 2.728 and 3.164 for 4, 3, 5 and 10 methods."""
    scores = np.random.default_rng(0).permuted(np.tile(np.arange(methods), (data, 1)), axis=1)
    assert tables.average(ranks_of(scores.tolist())).critical == pytest.approx(difference, abs=0.005)


def test_average_ranks_add_up_and_ties_share_them(tables: ModuleType) -> None:
    ranking = tables.average(ranks_of([[1, 2, 3], [1, 1, 2], [3, 2, 1]]))
    assert ranking.ranks == {"method1": pytest.approx(5.5 / 3), "method0": pytest.approx(5.5 / 3), "method2": 7 / 3}


def test_methods_that_are_not_everywhere_are_left_out(tables: ModuleType) -> None:
    most = {"x": [1.0], "y": [2.0], "z": [3.0]}
    ranks = {"a": {**most, "v": [4.0]}, "b": {**most, "w": [1.0]}, "c": {"x": [2.0], "y": [1.0], "z": [3.0]}}
    assert tables.average(ranks).ranks == {"x": pytest.approx(4 / 3), "y": pytest.approx(5 / 3), "z": 3.0}


def run(name: str, seed: int, value: float, failure: str | None = None, higher: bool = True) -> dict[str, Any]:
    metrics = {"task": {"auc": value, "other": -value}}
    names = {"task": {"auc": higher, "other": True}}
    found = {"name": name, "seed": seed, "tuned": False, "failure": failure}
    return {**found, "metrics": metrics, "higher_is_better": names}


def test_ranks_are_by_the_first_metric_and_failed_runs_come_last(tables: ModuleType) -> None:
    runs = [run("a", 0, 0.7), run("b", 0, 0.9), run("c", 0, float("nan")), run("d", 0, 1.0, failure="lost")]
    assert tables.rank(runs, tuned=False) == {"b": [1.0], "a": [2.0], "c": [3.5], "d": [3.5]}
    lower = [run("a", 0, 0.7, higher=False), run("b", 0, 0.9, higher=False)]
    assert tables.rank(lower, tuned=False) == {"a": [1.0], "b": [2.0]}
    assert tables.rank(runs, tuned=True) == {}


def test_differences_from_equal_weights_are_corrected_for_their_number(tables: ModuleType) -> None:
    numbers = np.random.default_rng(0)
    base = numbers.normal(size=5)
    better = {"EW": base.tolist(), "far": (base - 3 + numbers.normal(size=5)).tolist(), "same": base.tolist()}
    found = tables.against(better)
    assert found == {"far": "better", "same": ""}
    p = tables.ttest_rel(better["far"], base).pvalue
    assert p < 0.05
    many = {f"noise{i}": (base + numbers.normal(size=5)).tolist() for i in range(int(0.05 / p) + 1)}
    assert tables.against({**better, **many})["far"] == ""
    assert tables.against({"EW": [2.0, 2.1, 2.2], "worse": [9.0, 9.2, 9.4]}) == {"worse": "worse"}


def test_groups_are_the_largest_ones_within_the_critical_difference(tables: ModuleType) -> None:
    ranking = tables.Ranking({"a": 1.0, "b": 2.0, "c": 3.5, "d": 3.6, "e": 6.0}, 7, 0.01, critical=1.7)
    assert tables.groups(ranking) == [(1.0, 2.0), (2.0, 3.6)]
