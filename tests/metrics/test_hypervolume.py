"""Hypervolume and domination, against sums over boxes and the definition."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from torchsims.metrics import hypervolume, non_dominated

POINTS = np.array([[1.0, 5.0, 3.0], [2.0, 2.0, 4.0], [4.0, 1.0, 1.0], [4.0, 4.0, 4.0], [2.0, 2.0, 4.0]])


@pytest.mark.parametrize("m", [2, 3])
def test_the_volume_is_the_number_of_unit_cells_that_a_point_dominates(m: int) -> None:
    points = POINTS[:, :m]
    cells = product(range(6), repeat=m)
    covered = sum(any((np.array(cell) >= point).all() for point in points) for cell in cells)
    assert hypervolume(points, [6.0] * m) == covered
    assert hypervolume(points, [6.0] * m, [0.0] * m) == pytest.approx(covered / 6**m)


def test_units_do_not_change_the_share_of_a_box() -> None:
    units, zero = np.array([1e-6, 1.0, 1e6]), np.array([-3.0, 0.0, 2.0])
    plain = hypervolume(POINTS, [6.0, 6.0, 6.0], [1.0, 1.0, 1.0])
    other = hypervolume(units * (POINTS + zero), (units * (6 + zero)).tolist(), (units * (1 + zero)).tolist())
    assert other == pytest.approx(plain)


def test_points_beyond_the_reference_or_without_a_number_add_nothing() -> None:
    more = [*POINTS.tolist(), [0.0, 9.0, 0.0], [np.nan, 0.0, 0.0], [0.0, np.inf, 0.0]]
    assert hypervolume(more, [6.0] * 3) == hypervolume(POINTS, [6.0] * 3)
    assert hypervolume([[np.nan, 1.0]], [2.0, 2.0]) == 0


def test_a_point_is_dominated_by_one_that_is_better_somewhere_and_worse_nowhere() -> None:
    def dominated(a: NDArray[np.float64]) -> bool:
        return any((b <= a).all() and (b < a).any() for b in POINTS)

    assert non_dominated(POINTS).tolist() == [not dominated(point) for point in POINTS]
    assert non_dominated([[np.nan, 0.0], [1.0, 1.0]]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.0, 2.0], [3.0, 3.0]), r"one row per point. Found shape \(2,\)"),
        (([[1.0, 2.0]], [3.0]), "should have the same length. Found 2, 1 and 1"),
        (([[1.0, 2.0]], [3.0, 3.0], [3.0, 0.0]), "`ideal` should be below `reference`"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[list[float], ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        hypervolume(*arguments)
