"""Nash-MTL and FairGrad solve their equation: against a general solver, and by the laws of its solution."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import twins
from torchsims.aggregations import FairGrad, NashMTL
from torchsims.aggregations._fair_weights import fair_weights

POWERS = (0.1, 0.5, 1.0, 2.0, 10.0)
every_power = pytest.mark.parametrize("p", POWERS)


def rows(tasks: int, kind: str, seed: int = 0, columns: int = 60) -> Tensor:
    """Return gradients, `m x n`."""
    random = torch.Generator().manual_seed(seed)
    g = torch.randn(tasks, columns, generator=random, dtype=torch.float64)
    if kind == "spread":  # over eight orders of magnitude
        return g * torch.logspace(-4, 4, tasks, dtype=torch.float64)[:, None]
    if kind == "conflicting":
        return g - g.mean(0) + 0.05 * torch.randn(columns, generator=random, dtype=torch.float64)
    if kind == "equal":  # some of them, up to a factor
        return torch.cat([g[: tasks // 2], g[: tasks - tasks // 2] * 3])
    if kind == "ill-conditioned":
        u, _, v = torch.linalg.svd(g, full_matrices=False)
        g = (u * torch.logspace(0, -6, tasks, dtype=torch.float64)) @ v  # 1e12, of the Gramian
    return g


KINDS = ("like", "spread", "conflicting", "equal", "ill-conditioned")
every_kind = pytest.mark.parametrize("kind", KINDS)


def residual(gramian: Tensor, w: Tensor, p: float) -> Tensor:
    """Return how far the equation is from holding, relative to the terms that are added in it."""
    left, right = gramian @ w, w**-p
    return (left - right).abs() / (gramian.abs() @ w + right)


@every_power
@every_kind
@pytest.mark.parametrize("tasks", [2, 8, 32])
def test_the_equation_holds(tasks: int, kind: str, p: float) -> None:
    for seed in range(3):
        gramian = (g := rows(tasks, kind, seed)) @ g.T
        w = fair_weights(gramian, p)
        assert (w > 0).all()
        assert residual(gramian, w, p).max() < 1e-10


@every_power
def test_the_equation_holds_for_lengths_that_are_24_orders_of_magnitude_apart(p: float) -> None:
    for tasks in (2, 11):
        g = rows(tasks, "like") * torch.logspace(-12, 12, tasks, dtype=torch.float64)[:, None]
        assert residual(g @ g.T, fair_weights(g @ g.T, p), p).max() < 1e-7


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["like", "spread", "conflicting", "equal"])
def test_a_general_solver_finds_the_same(kind: str, p: float) -> None:
    for tasks, seed in ((2, 0), (3, 1), (5, 2)):
        g = rows(tasks, kind, seed) if kind != "spread" or p == 1 else rows(tasks, "like", seed) * 10
        found, expected = fair_weights(g @ g.T, p), twins.fair_weights(g @ g.T, p)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=0)


def test_two_orthogonal_gradients_have_the_solution_of_one_each() -> None:
    gramian = torch.tensor([[16.0, 0.0], [0.0, 1e-6]], dtype=torch.float64)
    for p in POWERS:  # G w = w^-p, task by task
        torch.testing.assert_close(fair_weights(gramian, p), gramian.diagonal() ** (-1 / (1 + p)), rtol=1e-13, atol=0)


@every_power
@every_kind
def test_the_order_of_the_tasks_is_that_of_the_weights(kind: str, p: float) -> None:
    g = rows(8, kind)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    one, two = (fair_weights(each @ each.T, p) for each in (g, g[order]))
    d = one @ g
    assert (two @ g[order] - d).norm() <= 1e-9 * (one.abs() @ g.abs()).norm()


@every_power
@every_kind
def test_a_common_factor_of_the_gradients_is_a_power_of_it_in_the_weights(kind: str, p: float) -> None:
    g = rows(5, kind)
    one, two = (fair_weights(c**2 * g @ g.T, p) for c in (1.0, 1024.0))
    tolerance = 1e-3 if kind == "ill-conditioned" else 1e-9
    torch.testing.assert_close(two, one * 1024 ** (-2 / (1 + p)), rtol=tolerance, atol=0)


@pytest.mark.parametrize("make", [NashMTL, FairGrad])
def test_units_that_are_powers_of_two_change_no_bit_of_the_direction(make: Callable[[], Any]) -> None:
    g = rows(4, "like")
    units = torch.tensor([1.0, 2.0**20, 2.0**-14, 2.0**60], dtype=torch.float64)[:, None]
    assert torch.equal(make()(g * units), make()(g))


@pytest.mark.parametrize("make", [NashMTL, FairGrad])
def test_units_over_sixteen_orders_of_magnitude_change_the_direction_by_rounding(make: Callable[[], Any]) -> None:
    g = rows(4, "like")
    units = torch.tensor([1.0, 1e-8, 1e8, 3.0], dtype=torch.float64)[:, None]
    torch.testing.assert_close(make()(g * units), make()(g), rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [partial(NashMTL, 0.0), FairGrad, partial(FairGrad, 2.0), partial(FairGrad, 0.5)])
@every_kind
def test_rounding_in_the_gramian_is_rounding_in_the_direction(make: Callable[[], Any], kind: str) -> None:
    """What a batch in parts changes is rounding, and so is what these methods make of it."""
    g = rows(4, kind)
    gramian, known = g @ g.T, torch.ones(4, dtype=torch.bool)
    noise = torch.randn(gramian.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rounded = gramian * (1 + 1e-16 * (noise + noise.T))
    one, two = (make().weights(each, torch.ones(4), known) for each in (gramian, rounded))
    amplified = 1e-3 if kind == "ill-conditioned" else 1e-9  # 1e-16 times 1e12
    assert ((one - two) @ g).norm() <= amplified * (one @ g).norm()


def test_nash_is_fairgrad_with_alpha_one_and_a_limit() -> None:
    g = rows(5, "spread")
    fair = FairGrad()(g)
    torch.testing.assert_close(fair.norm(), torch.tensor(5.0, dtype=torch.float64).sqrt())
    torch.testing.assert_close(NashMTL(0.0)(g), fair, rtol=0, atol=1e-13)
    torch.testing.assert_close(NashMTL(0.3)(g), fair * 0.3 / fair.norm(), rtol=0, atol=1e-13)
    torch.testing.assert_close(NashMTL(9.0)(g), fair, rtol=0, atol=1e-13)


def test_what_came_before_makes_no_difference() -> None:
    method = NashMTL()
    for seed in range(3):
        method(rows(4, "spread", seed))
    assert torch.equal(method(rows(4, "like")), NashMTL()(rows(4, "like")))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("make", [NashMTL, FairGrad])
def test_where_no_direction_is_good_for_all_it_is_zero(make: Callable[[], Any], dtype: torch.dtype) -> None:
    for tasks in (2, 3, 8):
        g = rows(tasks, "like", tasks)
        stationary = (g - g.mean(0)).to(dtype) * torch.logspace(0, 3, tasks, dtype=dtype)[:, None]
        assert make()(stationary).norm() < 10 * torch.finfo(dtype).eps ** 0.5
    assert not make()(torch.tensor([[3.0, -4.0], [-6.0, 8.0]], dtype=dtype)).any()


@pytest.mark.parametrize("make", [NashMTL, FairGrad, partial(FairGrad, 2.0)])
def test_a_gradient_of_zero_does_not_disturb_the_others(make: Callable[[], Any]) -> None:
    g = rows(3, "like")
    with_zero = torch.cat([g[:2], torch.zeros_like(g[:1]), g[2:]])
    torch.testing.assert_close(make()(with_zero), make()(g), rtol=0, atol=1e-13)
    assert not make()(torch.zeros(3, 4)).any()


def test_a_task_without_a_label_or_a_gradient_keeps_its_alpha() -> None:
    method, g = NashMTL(0.0), rows(3, "like")
    method(g)
    before = method.alpha
    method(torch.cat([g[:2] * 2, torch.zeros_like(g[:1])]))
    torch.testing.assert_close(method.alpha[2], before[2], rtol=0, atol=0)
    assert not torch.equal(method.alpha[:2], before[:2])
    before = method.alpha
    method(rows(3, "like", 5), labelled=torch.tensor([True, False, True]))
    assert torch.equal(method.alpha[1], before[1])
    assert (method.alpha[[0, 2]] != before[[0, 2]]).all()


def test_a_gramian_that_overflows_gives_no_finite_weights() -> None:
    gramian = torch.tensor([[torch.inf, 1.0], [1.0, 1.0]])
    assert fair_weights(gramian).isnan().all()
    assert NashMTL().weights(gramian, torch.ones(2), torch.ones(2, dtype=torch.bool)).isnan().all()


def test_single_precision_is_close_to_double() -> None:
    g = rows(8, "spread")
    torch.testing.assert_close(NashMTL()(g.float()).double(), NashMTL()(g), rtol=0, atol=1e-5)


def test_nash_of_one_task_is_its_unit_vector() -> None:
    torch.testing.assert_close(NashMTL()(torch.tensor([[3.0, 4.0]])), torch.tensor([0.6, 0.8]))
    assert not NashMTL()(torch.zeros(1, 2)).any()
