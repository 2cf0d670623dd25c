"""Preferences are spread evenly, the balanced point and reversed preferences depend on no unit."""

from itertools import combinations, pairwise
from math import comb, log

import numpy as np
import pytest

from torchsims.fronts import check_choice, find_balanced, find_reversals, preference_grid


@pytest.mark.parametrize("points", [2, 5, 9])
def test_two_tasks_have_as_many_rays_as_asked_in_equal_ratios(points: int) -> None:
    ratios = [p["a"] / p["b"] for p in preference_grid("ab", points, 16.0)]
    assert len(ratios) == points
    assert ratios[0] == pytest.approx(16)
    assert ratios[-1] == pytest.approx(1 / 16)
    steps = [x / y for x, y in pairwise(ratios)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-4)


@pytest.mark.parametrize(("m", "points"), [(3, 6), (3, 9), (4, 10), (5, 5)])
def test_more_tasks_have_the_largest_grid_that_fits(m: int, points: int) -> None:
    tasks = "abcde"[:m]
    found = preference_grid(tasks, points, 8.0)
    sizes = [comb(n + m - 1, m - 1) for n in range(1, 9)]
    assert len(found) == max(size for size in sizes if size <= points)
    logs = np.log([[p[task] for task in tasks] for p in found])
    np.testing.assert_allclose(logs.sum(1), 0, atol=1e-4)  # the mean of the logarithms is always zero
    assert max(np.ptp(row) for row in logs) == pytest.approx(log(8), rel=1e-4)
    assert len({tuple(p.values()) for p in found}) == len(found)
    for order in combinations(range(m), 2):  # exchanging two tasks gives the same grid
        swapped = logs.copy()
        swapped[:, list(order)] = swapped[:, list(order[::-1])]
        assert sorted(map(tuple, swapped.round(4).tolist())) == sorted(map(tuple, logs.round(4).tolist()))


@pytest.mark.parametrize(
    ("tasks", "points", "spread", "sentence"),
    [
        ("a", 3, 4.0, "needs at least two tasks. Found a"),
        ("abc", 2, 4.0, "`points` should be at least the number of tasks, 3. Found `points = 2`"),
        ("ab", 3, 1.0, "`spread` should be above 1 and finite. Found `spread = 1.0`"),
        ("ab", 3, float("nan"), "`spread` should be above 1"),
    ],
)
def test_bad_grids_are_one_sentence(tasks: str, points: int, spread: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        preference_grid(tasks, points, spread)


@pytest.mark.parametrize("choose", ["0", "4", "-1", "best", "", "1.0"])
def test_a_choice_is_balanced_or_a_number(choose: str) -> None:
    check_choice("balanced", 3)
    check_choice("3", 3)
    with pytest.raises(ValueError, match="balanced or the number of a point, 1 to 3"):
        check_choice(choose, 3)


FRONT = np.array([[0.0, 9.0], [1.0, 4.0], [3.0, 3.0], [9.0, 0.0], [np.nan, 0.0], [5.0, 9.0]])


@pytest.mark.parametrize("units", [(1.0, 1.0), (1e6, 1.0), (0.3, 1e-6)])
def test_the_balanced_point_is_the_same_in_all_units_and_in_any_order(units: tuple[float, float]) -> None:
    for order in (range(6), [3, 5, 2, 4, 1, 0]):
        points = FRONT[list(order)] * units + 7.0
        assert list(order)[find_balanced(points)] == 2  # 1/3 of both ranges from the best


def test_dominated_points_are_neither_chosen_nor_a_yardstick() -> None:
    far = [[1000.0, 1000.0], [1000.0, -1.0]]  # the second extends one range only
    assert find_balanced([*FRONT.tolist(), far[0]]) == 2
    with pytest.raises(ValueError, match="Found none that has"):
        find_balanced([[np.nan, 1.0]])


def test_a_task_that_does_not_change_does_not_count() -> None:
    assert find_balanced([[1.0, 3.0], [1.0, 2.0]]) == 1


def test_reversals_are_pairs_with_more_preference_and_more_loss() -> None:
    fan = preference_grid("ab", 4, 8.0)
    good = np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 7.0], [4.0, 6.0]])
    assert find_reversals(fan, good) == ([], 12)
    wrong, compared = find_reversals(fan, good[[1, 0, 2, 3]])
    assert (sorted(wrong), compared) == ([(0, 1), (1, 0)], 12)
    assert find_reversals(fan, np.where(good == 8.0, np.nan, good))[1] == 6
    scaled = [{task: 1000 * p[task] for task in p} for p in fan]  # only ratios count
    assert find_reversals(scaled, good[[1, 0, 2, 3]]) == (wrong, compared)


def test_of_three_tasks_only_those_points_are_compared_that_differ_in_one_preference() -> None:
    preferences = [{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 8.0, "b": 2.0, "c": 2.0}, {"a": 1.0, "b": 3.0, "c": 2.0}]
    losses = [[1.0, 1.0, 1.0], [2.0, 0.5, 0.5], [5.0, 5.0, 5.0]]
    assert find_reversals(preferences, losses) == ([(0, 1)], 1)
