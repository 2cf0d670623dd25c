"""The verdict of a comparison: planted winners, ties, failures, and what one seed cannot say."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student_distribution
from scipy.stats import ttest_rel

from torchsims.reporting import Score, comparison_report, score_runs
from torchsims.reporting._verdict import Verdict, find_verdict, student
from torchsims.training import RunConfig
from torchsims.training.run import Run

PASSES = {"EW": "1+1", "GLS": "1+1", "SIMS": "2+2"}


def make_runs(values: Mapping[str, Sequence[float]], *, metric: str = "miou", up: bool = True) -> list[Run]:
    """Return one run per label and seed, with the same seeds for all labels."""
    return [
        Run(label, RunConfig(seed=seed), {"a": {metric: x}}, {"a": {metric: up}}, passes=PASSES.get(label, ""))
        for label, numbers in values.items()
        for seed, x in enumerate(numbers)
    ]


def judge(runs: Sequence[Run], baseline: str = "EW") -> Verdict:
    found = find_verdict(runs, score_runs(runs, baseline), baseline)
    assert found is not None
    return found


def test_a_planted_winner_is_named_with_its_margin_and_its_cost() -> None:
    verdict = judge(make_runs({"EW": [0.50, 0.52, 0.51], "GLS": [0.52, 0.54, 0.53], "SIMS": [0.60, 0.63, 0.61]}))
    assert verdict.tied == ["SIMS"]
    assert verdict.rivals[0].label == "GLS"
    outcome, cost = verdict.sentences
    assert outcome.startswith("SIMS is best: its Delta_b of 0.203 is 0.163 ± 0.028 above that of GLS, the next best")
    assert cost == "SIMS takes 2+2 forward+backward passes per step, and EW takes 1+1."


def test_a_planted_tie_has_no_winner_and_names_the_cheaper_method() -> None:
    verdict = judge(make_runs({"EW": [0.30, 0.31, 0.32], "GLS": [0.50, 0.52, 0.54], "SIMS": [0.53, 0.50, 0.54]}))
    assert verdict.tied == ["SIMS", "GLS"]
    outcome, cost = verdict.sentences
    assert outcome.startswith("No difference that 3 seeds can show between SIMS and GLS: the best Delta_b")
    assert outcome.endswith("above that of GLS; the other methods are behind it.")
    assert cost.endswith("and GLS, the cheapest of these, 1+1.")


def test_one_seed_says_that_it_has_no_spread() -> None:
    verdict = judge(make_runs({"EW": [0.5], "SIMS": [0.6]}))
    assert verdict.best == "SIMS"
    assert not verdict.rivals[0].shown
    assert "one seed has no spread, so that this may be chance" in verdict.sentences[0]


def test_methods_without_a_common_seed_are_not_paired() -> None:
    runs = make_runs({"EW": [0.5, 0.51], "SIMS": [0.6, 0.61]})
    runs = [replace(run, config=RunConfig(seed=run.seed + 10 * (run.label == "SIMS"))) for run in runs]
    verdict = judge(runs)
    assert (verdict.rivals[0].seeds, verdict.rivals[0].half_width) == (0, None)
    assert "without a common seed there is no spread" in verdict.sentences[0]


def test_a_method_that_failed_is_named_and_not_compared() -> None:
    runs = make_runs({"EW": [0.5, 0.51], "GLS": [0.9, math.nan], "SIMS": [0.6, 0.61]})
    verdict = judge(runs)
    assert verdict.best == "SIMS"
    assert verdict.failed == {"GLS": "1 of 2 seeds"}
    assert [rival.label for rival in verdict.rivals] == ["EW"]
    assert verdict.sentences[1].endswith("; not compared, because runs failed or diverged: GLS, 1 of 2 seeds.")
    alone = judge(make_runs({"EW": [math.nan], "SIMS": [0.6]}))
    assert alone.sentences[0].startswith("Only SIMS has numbers")
    assert alone.sentences[1] == "Not compared, because runs failed or diverged: EW, 1 of 1 seeds."
    assert judge(make_runs({"EW": [math.nan], "SIMS": [math.nan]})).best is None


def test_lower_is_better_where_the_metric_says_so() -> None:
    values = {"EW": [2.0, 2.1, 2.2], "SIMS": [1.0, 1.1, 1.2]}
    assert judge(make_runs(values, metric="mae", up=False)).tied == ["SIMS"]
    assert judge(make_runs(values)).tied == ["EW"]


def test_mean_ranks_are_compared_where_delta_b_is_left_out() -> None:
    runs = make_runs({"EW": [0.01, 0.02, 0.01], "GLS": [0.3, 0.3, 0.3], "SIMS": [0.6, 0.6, 0.7]}, metric="r2")
    verdict = judge(runs)
    assert (verdict.score, verdict.best, verdict.value) == ("mean rank", "SIMS", 1.0)
    assert "its mean rank of 1.00 is 1.00 ± 0.00 below that of GLS" in verdict.sentences[0]
    report = comparison_report("", "", runs, baseline="EW")
    assert report.verdict == verdict
    assert not any("Delta_b" in row for row in report.rows)


@pytest.mark.parametrize(
    ("metric", "value"), [*(("r2", x) for x in (0.0, 0.049, -3.0, math.nan)), ("miou", 0.0), ("accuracy", 0.009)]
)
def test_nothing_is_relative_to_a_share_near_zero(metric: str, value: float) -> None:
    runs = make_runs({"EW": [value, value], "SIMS": [0.5, 0.6]}, metric=metric)
    report = comparison_report("", "", runs, baseline="EW")
    assert all("mean rank" in row and "Delta_b" not in row for row in report.rows)
    assert sum(note.startswith("Ranks stand in for Delta_b") for note in report.notes) == 1
    assert "delta" not in report.figures


def test_small_numbers_that_others_can_be_relative_to() -> None:
    assert score_runs(make_runs({"EW": [0.02], "SIMS": [0.03]}), "EW").name == "Delta_b"
    runs = make_runs({"EW": [0.004, 0.005], "SIMS": [0.002, 0.003]}, metric="mae", up=False)
    assert score_runs(runs, "EW").name == "Delta_b"


def test_runs_without_the_baseline_have_ranks() -> None:
    runs = make_runs({"GLS": [0.5, 0.5], "SIMS": [0.6, 0.6]})
    assert score_runs(runs, "EW").values == {"GLS": [2.0, 2.0], "SIMS": [1.0, 1.0]}
    assert judge(runs).best == "SIMS"
    assert find_verdict(runs[:2], score_runs(runs[:2], "EW"), "EW") is None


def test_a_difference_is_shown_where_the_paired_test_of_scipy_shows_it() -> None:
    rng = np.random.default_rng(0)
    shown = 0
    for _ in range(200):
        count = int(rng.integers(2, 14))
        one, other = rng.normal(size=(2, count)) + rng.normal(size=count)
        other = other - rng.uniform(0, 2)
        runs = make_runs({"A": list(one), "B": list(other)})
        score = Score("x", True, {"A": list(one), "B": list(other)})
        verdict = find_verdict(runs, score, "A")
        assert verdict is not None
        expected = bool(ttest_rel(one, other).pvalue < 0.05)
        assert verdict.rivals[0].shown == expected
        shown += expected
    assert 20 < shown < 180


def test_a_winner_among_equal_methods_is_rare() -> None:
    rng = np.random.default_rng(0)
    for count in (2, 5):
        named = 0
        for _ in range(300):
            values = {f"M{i}": list(row) for i, row in enumerate(rng.normal(size=(count, 3)))}
            verdict = find_verdict(make_runs(values), Score("x", True, values), "M0")
            assert verdict is not None
            named += len(verdict.tied) == 1
        assert named <= 27, count  # 5 % are 15


def test_the_quantiles_are_those_of_scipy() -> None:
    for freedom in range(1, 200):
        assert student(freedom) == pytest.approx(student_distribution.ppf(0.975, freedom), rel=3e-4)


def test_equal_numbers_are_no_difference() -> None:
    verdict = judge(make_runs({"EW": [0.5, 0.5], "SIMS": [0.5, 0.5]}))
    assert verdict.tied == ["EW", "SIMS"]
    assert "is 0.000 ± 0.000 above" in verdict.sentences[0]


def test_many_methods_are_counted() -> None:
    verdict = judge(make_runs({name: [0.5, 0.5] for name in ["EW", *"ABCDEF"]}))
    assert len(verdict.tied) == 7
    assert "between EW, A, B, C and 3 others:" in verdict.sentences[0]


def test_labels_with_commas_stay_apart() -> None:
    labels = ["EW", "SIMS, a x 10", "GLS"]
    numbers = [[0.5, 0.52], [0.52, 0.5], [0.51, 0.51]]
    verdict = judge(make_runs(dict(zip(labels, numbers, strict=True))))
    assert sorted(verdict.tied) == sorted(labels)
    first, second, third = verdict.tied
    assert f"between {first}; {second} and {third}:" in verdict.sentences[0]


def many_tasks(values: Mapping[str, np.ndarray]) -> list[Run]:
    """Return one run per label and seed with the metrics `seed x task`."""
    up = {f"t{i}": {"r2": True} for i in range(next(iter(values.values())).shape[1])}
    return [
        Run(label, RunConfig(seed=seed), {task: {"r2": x} for task, x in zip(up, row, strict=True)}, up)
        for label, rows in values.items()
        for seed, row in enumerate(rows.tolist())
    ]


def test_a_method_that_loses_most_tasks_is_behind_though_ranks_are_too_few_to_say_so() -> None:
    ew = np.array([[0.00, 0.01, 0.94], [0.01, 0.00, 0.93], [0.00, 0.00, 0.94]])
    sims = np.array([[0.60, 0.70, 0.93], [0.62, 0.75, 0.94], [0.61, 0.71, 0.93]])
    verdict = judge(many_tasks({"EW": ew, "SIMS": sims}))
    rival = verdict.rivals[0]
    assert not rival.by_score
    assert verdict.tied == ["SIMS"]
    assert "the next best, and ahead of it on t0 and t1 with the same 3 seeds." in verdict.sentences[0]
    gls = sims[:, [1, 0, 2]]
    three = judge(many_tasks({"EW": ew, "GLS": gls, "SIMS": sims}))
    assert sorted(three.tied) == ["GLS", "SIMS"]
    assert three.sentences[0].endswith("; the other methods are behind it.")
    ew[:, 2] += 0.5  # it wins one task
    assert not judge(many_tasks({"EW": ew, "SIMS": sims})).rivals[0].lost


def test_a_winner_among_equal_methods_is_rare_with_several_tasks() -> None:
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(400):
        runs = many_tasks({f"M{i}": 1 + 0.1 * rng.normal(size=(3, 3)) for i in range(2)})
        named += len(judge(runs, "M0").tied) == 1
    assert named <= 34  # 5 % are 20
