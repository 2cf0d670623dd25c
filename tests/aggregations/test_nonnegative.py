"""UPGrad, CAGrad and MGDA solve their quadratic programs: against general solvers, and by the laws of a solution."""

from typing import Any

import numpy as np
import pytest
import torch
import torchjd.aggregation as jd
from torch import Tensor
from torchjd.linalg import QuadprogProjector

from helpers import twins
from torchsims.aggregations import MGDA, CAGrad, UPGrad, _nonnegative
from torchsims.aggregations._nonnegative import Array, cosines, minimize, rounding_of, to_host


def rows(tasks: int, kind: str, seed: int = 0, columns: int = 200) -> Tensor:
    """Return gradients, `m x n`."""
    random = torch.Generator().manual_seed(seed)
    g = torch.randn(tasks, columns, generator=random, dtype=torch.float64)
    if kind == "spread":  # over eight orders of magnitude
        g = g * torch.logspace(-4, 4, tasks, dtype=torch.float64)[:, None]
    elif kind == "conflicting":
        g = g - g.mean(0) + 0.05 * torch.randn(columns, generator=random, dtype=torch.float64)
    elif kind == "stationary":
        g = (g - g.mean(0)) * torch.rand(tasks, 1, generator=random, dtype=torch.float64)
    elif kind == "equal":  # some of them, up to a factor
        g = torch.cat([g[: tasks // 2], 3 * g[: tasks - tasks // 2]])
    elif kind == "opposite":
        g = torch.cat([g[: tasks // 2], -2 * g[: tasks - tasks // 2]])
    elif kind == "low rank":
        rank = max(1, tasks // 4)
        g = torch.randn(tasks, rank, generator=random, dtype=torch.float64) @ g[:rank]
    elif kind == "aligned":  # with a common direction, or against it
        g = g + torch.randn(tasks, 1, generator=random, dtype=torch.float64) * g.flip(0).mean(0) * 5
    elif kind == "ill-conditioned":
        u, _, v = torch.linalg.svd(g, full_matrices=False)
        g = (u * torch.logspace(0, -6, tasks, dtype=torch.float64)) @ v  # 1e12, of the Gramian
    return g


KINDS = ("like", "spread", "conflicting", "stationary", "equal", "opposite", "low rank", "aligned", "ill-conditioned")
SIZES = (2, 3, 8, 32, 128)
every_kind = pytest.mark.parametrize("kind", KINDS)


def programs(g: Tensor, reg: float = 0.0) -> tuple[Array, float]:
    host = to_host(g @ g.T)
    return cosines(host, np.sqrt(host.diagonal() + reg * host.trace()), rounding_of(g @ g.T))


def weights(method: CAGrad | UPGrad | MGDA, g: Tensor) -> Tensor:
    return method.weights(g @ g.T, torch.ones(len(g)), torch.ones(len(g), dtype=torch.bool))


# The programs


@pytest.mark.parametrize("reg", [1e-4, 0.0])
@pytest.mark.parametrize("patience", [3, 0])
@every_kind
def test_both_ways_satisfy_the_conditions_of_a_minimum(
    kind: str, patience: int, reg: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By exchanges of all wrong signs and, with no patience for these, by single steps that descend."""
    monkeypatch.setattr(_nonnegative, "_PATIENCE", patience)
    for tasks in SIZES[:4]:
        c, lowest = programs(rows(tasks, kind), reg)
        x = minimize(c, c, lowest)
        y, size = x @ c + c, np.abs(x).sum(1, keepdims=True) + 1
        tolerance = 1e-13 * tasks / np.sqrt(lowest)
        assert (x >= 0).all()
        assert (y >= -tolerance * size).all()
        assert (np.minimum(x, y) <= tolerance * size).all()


def test_the_number_of_rounds_does_not_grow_with_the_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    solve = _nonnegative._solve

    def counted(c: Array, q: Array, free: Any) -> Array:
        rounds.append(len(q))
        return solve(c, q, free)

    monkeypatch.setattr(_nonnegative, "_solve", counted)
    for method, most in ((UPGrad(), 12), (CAGrad(), 30), (MGDA(), 12)):
        for kind in ("like", "spread", "conflicting", "aligned"):
            for tasks in (2, 8, 32, 128):
                rounds.clear()
                weights(method, rows(tasks, kind))
                assert 0 < len(rounds) <= most, (kind, tasks)


def test_a_gramian_that_is_symmetric_to_rounding_only_is_enough() -> None:
    """As matrix products of some machines are; without a common matrix the programs may have no solution."""
    for seed in range(100):
        g = rows(16, "low rank", seed).float()
        noise = torch.randn(16, 16, generator=torch.Generator().manual_seed(seed)).triu(1)
        gramian = g @ g.T * (1 + 1e-7 * noise)
        w = UPGrad(reg_eps=0).weights(gramian, torch.ones(16), torch.ones(16, dtype=torch.bool))
        assert w.isfinite().all()


def test_a_start_changes_nothing_but_the_way() -> None:
    c, lowest = programs(rows(8, "like"))
    found = minimize(c, c, lowest)
    for near in (found, found[::-1], np.ones_like(c)):
        np.testing.assert_allclose(minimize(c, c, lowest, near), found, rtol=0, atol=1e-14)


# UPGrad


@pytest.mark.parametrize("reg", [1e-4, 1e-7])
@every_kind
def test_upgrad_finds_what_quadprog_finds(kind: str, reg: float) -> None:
    """By TorchJD's own weighting, one program after the other."""
    twin = jd.UPGrad(projector=QuadprogProjector(reg_eps=reg, norm_eps=0)).gramian_weighting
    for tasks in SIZES if reg == 1e-4 else SIZES[:4]:
        g = rows(tasks, kind, seed=tasks)
        found, expected = weights(UPGrad(reg_eps=reg), g), twin(g @ g.T)
        assert ((found - expected) @ g).norm() <= 1e-9 * (expected[:, None] * g).norm()


@every_kind
def test_upgrad_harms_no_task(kind: str) -> None:
    """Without `reg_eps`, for which quadprog needs independent gradients."""
    for tasks in (2, 8, 32):
        g = rows(tasks, kind, seed=1)
        size = g.norm(dim=1)
        d = UPGrad(reg_eps=0)(g)
        rounding = 1e-6 if kind == "ill-conditioned" else 1e-8
        assert (g @ d >= -rounding * size * size.max()).all()
        assert d.norm() <= size.mean() * (1 + 1e-9)  # no projection is longer than what it projects


def test_upgrad_leaves_gradients_that_agree_alone() -> None:
    g = rows(5, "like").abs()
    for reg in (0.0, 1e-4):
        torch.testing.assert_close(UPGrad(reg_eps=reg)(g), g.mean(0), rtol=1e-14, atol=0)


def test_upgrad_of_two_tasks_is_the_formula() -> None:
    g, h = torch.tensor([[1.0, 0.0], [-3.0, 1.0]], dtype=torch.float64)
    expected = (g - (g @ h) / (h @ h) * h + h - (g @ h) / (g @ g) * g) / 2
    torch.testing.assert_close(UPGrad(reg_eps=0)(torch.stack([g, h])), expected, rtol=1e-12, atol=1e-12)


def test_without_regularisation_a_projection_does_not_depend_on_the_units_of_other_tasks() -> None:
    """Of a gradient with weight, and others that only bound where it may go, in any unit."""
    g = rows(4, "like", seed=3)
    units = torch.tensor([2.0**60, 1e-8, 1e-9, 1e-10], dtype=torch.float64)[:, None]
    large = UPGrad(reg_eps=0)(g * units) * 4 / units[0]  # the other gradients are nothing beside the first one
    c, lowest = programs(g)
    x = torch.from_numpy(minimize(c, c[:1], lowest)[0]) * g[0].norm() / g.norm(dim=1)
    torch.testing.assert_close(large, g[0] + x @ g, rtol=1e-9, atol=1e-9)


# CAGrad


@pytest.mark.parametrize("c", [0.1, 0.5, 0.9, 2.0])
@every_kind
def test_cagrad_finds_what_a_general_solver_finds(kind: str, c: float) -> None:
    if kind == "spread" or (c > 1 and kind == "ill-conditioned"):
        return  # beyond the accuracy of the general one
    for tasks in (2, 5, 16):
        g = rows(tasks, kind, seed=tasks, columns=30)
        d, expected = CAGrad(c, norm_eps=0)(g), twins.best_worst_task(g, c)
        assert (g @ d).min() >= (g @ expected).min() - 1e-8 * g.square().sum(1).max()
        if kind != "opposite":  # whose best direction is not the only one
            assert (d - expected).norm() <= 1e-5 * g.mean(0).norm()


@pytest.mark.parametrize("c", [1e-3, 0.5, 0.999])
@every_kind
def test_the_worst_task_of_cagrad_is_as_good_as_its_dual_bound(kind: str, c: float) -> None:
    r"""No direction of the ball is better: :math:`\min_i g_i d \le g_0 g_w + s |g_w|` for all weights w."""
    for tasks in SIZES:
        g = rows(tasks, kind, seed=tasks)
        g = g / g.norm()
        mean = g.mean(0)
        s = c * mean.norm()
        beta = weights(CAGrad(c, norm_eps=0), g)
        w = beta - 1 / tasks
        w = w / w.sum() @ g
        d = beta @ g
        assert (d - mean).norm() <= s * (1 + 1e-9)
        gap = mean @ w + s * w.norm() - (g @ d).min()
        assert gap <= (1e-7 if kind in ("ill-conditioned", "opposite") else 1e-12)


def test_cagrad_of_two_orthogonal_gradients_is_the_formula() -> None:
    g = torch.eye(2, dtype=torch.float64)
    for c in (1e-200, 1e-12, 1e-3, 0.5, 3.0, 1e6):
        expected = g.mean(0) * (1 + c)
        torch.testing.assert_close(CAGrad(c)(g), expected, rtol=1e-12, atol=0)
    assert torch.equal(CAGrad(0.0)(g), g.mean(0))


@pytest.mark.parametrize("c", [1.0, 1.5, 1e3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cagrad_is_zero_where_no_direction_is_good_for_all_and_the_ball_holds_zero(c: float, dtype: Any) -> None:
    for kind in ("stationary", "opposite"):
        for tasks in (2, 8, 32):
            g = rows(tasks, kind).to(dtype)
            assert CAGrad(c)(g).norm() <= 1e-3 * g.mean(0).norm() + 1e-6 * g.norm()


def test_a_gradient_of_zero_stops_cagrad_and_not_upgrad() -> None:
    g = rows(3, "like")
    with_zero = torch.cat([g[:2], torch.zeros_like(g[:1]), g[2:]])
    torch.testing.assert_close(UPGrad()(with_zero) * 4 / 3, UPGrad()(g), rtol=1e-12, atol=1e-14)
    assert not CAGrad()(with_zero).any()
    assert not jd.CAGrad(c=0.5)(with_zero).any()


# MGDA


@pytest.mark.parametrize("kind", ["like", "conflicting", "aligned"])
def test_mgda_finds_what_quadprog_finds(kind: str) -> None:
    """Whose gradients are independent and of like sizes, as quadprog needs it."""
    for tasks in SIZES:
        g = rows(tasks, kind, seed=tasks)
        expected = twins.shortest_vector(g)
        assert (MGDA()(g) - expected).norm() <= 1e-9 * expected.norm()


@every_kind
def test_no_task_descends_less_than_the_vector_of_mgda_itself(kind: str) -> None:
    """The conditions of the shortest vector, and weights of the simplex; where a sum of gradients is zero, it is it."""
    for tasks in SIZES:
        g = rows(tasks, kind, seed=tasks)
        w, smallest = weights(MGDA(), g), g.norm(dim=1).min()
        d = w @ g
        assert (w >= 0).all()
        torch.testing.assert_close(w.sum().item(), 1.0, rtol=1e-12, atol=0)
        assert d.norm() <= smallest * (1 + 1e-12)
        rounding = 1e-6 if kind in ("stationary", "opposite", "low rank", "ill-conditioned") else 1e-12
        assert (g @ d >= d @ d - rounding * smallest * g.norm(dim=1)).all()
        if kind in ("stationary", "opposite"):
            assert d.norm() <= 1e-6 * smallest


def test_every_task_descends_with_mgda_where_it_need_not_with_torchjd() -> None:
    """Gradients of different sizes: along the vector that TorchJD's iterations stop at, some losses rise."""
    for seed in range(5):
        g = rows(8, "spread", seed)
        assert (g @ MGDA()(g) > 0).all()
        assert (g @ jd.MGDA()(g)).min() < 0


def test_a_gradient_of_zero_is_the_vector_of_mgda() -> None:
    g = torch.cat([rows(3, "like"), torch.zeros(1, 200, dtype=torch.float64)])
    for normalize in ("none", "norm"):
        assert weights(MGDA(normalize), g).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("normalize", ["loss", "loss+norm"])
def test_losses_whose_squares_underflow_give_no_weights_of_mgda(normalize: Any) -> None:
    """The entries of their Gramian have underflowed too, and are no gradients of zero."""
    g, losses = rows(2, "like").float(), torch.tensor([2.0, 3.0])
    expected = MGDA(normalize)(g, losses)
    for small in (1e-10, 1e-25):
        unit = torch.tensor([small, 1.0])
        found = MGDA(normalize)(g * unit[:, None], losses * unit)
        if small == 1e-25:
            assert found.isnan().all()
        elif normalize == "loss":  # the other divides by the units twice
            torch.testing.assert_close(found, expected)


# All


@pytest.mark.parametrize("method", [UPGrad(), UPGrad(reg_eps=0), CAGrad(), CAGrad(2.0), MGDA(), MGDA("norm")])
def test_a_gramian_that_overflows_gives_no_finite_weights(method: Any) -> None:
    gramian = torch.tensor([[torch.inf, 1.0], [1.0, 1.0]])
    assert method.weights(gramian, torch.ones(2), torch.ones(2, dtype=torch.bool)).isnan().all()


@pytest.mark.parametrize("method", [UPGrad(), CAGrad(), CAGrad(0.9), MGDA()])
@pytest.mark.parametrize("kind", ["like", "conflicting", "equal", "low rank", "aligned"])
def test_single_precision_is_close_to_double(method: Any, kind: str) -> None:
    for tasks in (2, 8, 32):
        g = rows(tasks, kind, seed=2)
        d = method(g)
        assert (method(g.float()).double() - d).norm() <= 1e-3 * d.norm() + 1e-6 * g.norm()


@pytest.mark.parametrize("method", [UPGrad(), UPGrad(reg_eps=0), CAGrad(), MGDA()])
@every_kind
def test_the_order_of_many_tasks_makes_no_difference(method: Any, kind: str) -> None:
    g = rows(16, kind)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    one, two = method(g), method(g[order])
    tolerance = 1e-5 if kind == "ill-conditioned" else 1e-8
    assert (one - two).norm() <= tolerance * g.norm()
