"""Mean ranks stand in for Delta_b where nothing can be relative to a metric of the baseline."""

import numpy as np
import pytest
from scipy.stats import rankdata

from torchsims.reporting import comparison_report
from torchsims.reporting._ranks import mean_ranks
from torchsims.training import RunConfig
from torchsims.training.run import Run

UP = {"a": {"r2": True, "mae": False}, "b": {"auc": True}}


def make_runs(r2: float, seeds: int = 2) -> list[Run]:
    rng = np.random.default_rng(0)
    runs = []
    for seed in range(seeds):
        for label in ("EW", "GLS", "SIMS"):
            numbers = rng.integers(1, 4, size=3) / 4  # with ties
            metrics = {"a": {"r2": r2 if label == "EW" else numbers[0], "mae": numbers[1]}, "b": {"auc": numbers[2]}}
            runs.append(Run(label, RunConfig(seed=seed), metrics, UP))
    return runs


def test_ranks_are_those_of_scipy() -> None:
    runs = make_runs(0.5)
    found = mean_ranks(runs)
    for seed in range(2):
        group = [run for run in runs if run.seed == seed]
        ranks = [
            rankdata([-run.metrics["a"]["r2"] for run in group]),
            rankdata([run.metrics["a"]["mae"] for run in group]),
            rankdata([-run.metrics["b"]["auc"] for run in group]),
        ]
        expected = ((ranks[0] + ranks[1]) / 2 + ranks[2]) / 2
        np.testing.assert_allclose([found[run.label][seed] for run in group], expected)


def test_nan_comes_last() -> None:
    runs = [
        Run(label, RunConfig(), {"b": {"auc": x}}, {"b": UP["b"]}) for label, x in (("A", float("nan")), ("B", 0.1))
    ]
    assert mean_ranks(runs) == {"A": [2.0], "B": [1.0]}


@pytest.mark.parametrize(("r2", "name", "other"), [(0.5, "Delta_b", "mean rank"), (0.01, "mean rank", "Delta_b")])
def test_a_baseline_close_to_zero_has_no_delta_b(r2: float, name: str, other: str) -> None:
    report = comparison_report("", "", make_runs(r2), baseline="EW")
    assert all(name in row and other not in row for row in report.rows)
    assert [column.name for column in report.columns if column.name in (name, other)] == [name]
    said = [note for note in report.notes if "Ranks stand in for Delta_b: a r2 of EW is 0.01" in note]
    assert len(said) == (name == "mean rank")
    assert ("ranks" in report.figures) == (name == "mean rank")
