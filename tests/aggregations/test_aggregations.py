"""Laws of the gradient-level methods, on matrices."""

import builtins
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torchjd.aggregation as jd
from torch import Tensor, nn
from torch.optim import SGD, Adam

from helpers.methods import GRADIENT_LEVEL, GradientLevel, every_gradient_level
from helpers.support import TASKS
from torchsims import Aggregated, aggregations
from torchsims.aggregations import (
    DBMTL,
    MGDA,
    AlignedMTL,
    CAGrad,
    FairGrad,
    GradDrop,
    GradNorm,
    GradVac,
    NashMTL,
    PCGrad,
    UPGrad,
    from_torchjd,
)

METHODS = sorted(set(aggregations.__all__) - {"Aggregation", "WeightedAggregation", "from_torchjd"})
NATIVE = (DBMTL, lambda: GradNorm(["a", "b", "c"]), NashMTL, FairGrad, UPGrad, CAGrad, MGDA)
UNORDERED = [case for case in GRADIENT_LEVEL if not case.ordered]


def matrix(tasks: int = 3, columns: int = 40, seed: int = 0, scales: float = 2.0) -> Tensor:
    """Return gradients that conflict, of different lengths, `m x n`."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(tasks, columns, generator=generator, dtype=torch.float64)
    sizes = scales ** torch.arange(tasks, dtype=torch.float64)
    return noise * sizes[:, None]


def losses(seed: int = 0) -> Tensor:
    return torch.rand(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.5


def test_every_method_has_a_case() -> None:
    assert {case.method for case in GRADIENT_LEVEL} == {*METHODS, "from_torchjd"}
    for name in METHODS:
        kind = getattr(aggregations, name)
        assert issubclass(kind, aggregations.Aggregation)
        assert kind.needs in ("gramian", "gradients")
        assert kind.needs == ("gramian" if issubclass(kind, aggregations.WeightedAggregation) else "gradients")


@every_gradient_level
def test_a_method_works_on_a_matrix_without_any_stepper(case: GradientLevel) -> None:
    method, twin = case.make(TASKS), case.twin()
    for seed in range(3):
        if case.method in ("DBMTL", "GradNorm") and seed:
            break  # their later steps belong to a run
        now = losses(seed) if case.method != "DBMTL" else torch.ones(3, dtype=torch.float64)
        direction, expected = method(matrix(seed=seed), now), twin(matrix(seed=seed), now)
        torch.testing.assert_close(direction, expected, rtol=0, atol=case.tolerance)


@pytest.mark.parametrize("case", UNORDERED, ids=lambda case: case.name)
def test_the_order_of_the_tasks_makes_no_difference(case: GradientLevel) -> None:
    order = [2, 0, 1]
    one, two = case.make(TASKS)(matrix(), losses()), case.make(TASKS)(matrix()[order], losses()[order])
    torch.testing.assert_close(one, two, rtol=0, atol=case.tolerance)


@every_gradient_level
def test_a_state_goes_through_a_file_and_on(case: GradientLevel) -> None:
    method = case.make(TASKS)
    for seed in range(3):
        method(matrix(seed=seed), losses(seed))
    file = io.BytesIO()
    torch.save(method.state_dict(), file)
    file.seek(0)
    again = case.make(TASKS)
    again.load_state_dict(torch.load(file, weights_only=True))
    for seed in range(3, 6):
        assert torch.equal(method(matrix(seed=seed), losses(seed)), again(matrix(seed=seed), losses(seed)))


@every_gradient_level
def test_evaluation_mode_shows_the_next_step_and_changes_nothing(case: GradientLevel) -> None:
    method = case.make(TASKS)
    method(matrix(seed=1), losses(1))
    before = str(method.state_dict())
    shown = [method.eval()(matrix(seed=2), losses(2)) for _ in range(2)]
    assert torch.equal(*shown)
    assert str(method.state_dict()) == before
    if case.method != "GradNorm":  # whose mean of the first epoch takes the step's own losses in
        assert torch.equal(method.train()(matrix(seed=2), losses(2)), shown[0])


@every_gradient_level
def test_rows_without_labels_are_ignored(case: GradientLevel) -> None:
    if case.name == "from_torchjd-aggregator":
        return  # trims a task on each side, of three
    labelled = torch.tensor([True, False, True])
    results = []
    for junk in (torch.nan, 7.0):
        rows, now = matrix(), losses()
        rows[1], now[1] = junk, junk
        results.append(case.make(TASKS)(rows, now, labelled))
    assert torch.equal(*results)
    assert results[0].isfinite().all()


def test_a_matrix_has_two_dimensions() -> None:
    with pytest.raises(ValueError, match=r"should have two dimensions. Found shape \(3,\)"):
        MGDA()(torch.ones(3))


# MGDA


@pytest.mark.parametrize("normalize", ["none", "loss", "norm", "loss+norm"])
@pytest.mark.parametrize("seed", range(4))
def test_mgda_satisfies_the_optimality_conditions_of_the_shortest_vector(normalize: Any, seed: int) -> None:
    """No task descends less than d itself: g_i d >= n_i |d|^2, with equality where it has weight."""
    rows, now = matrix(seed=seed, columns=4), losses(seed)
    d = MGDA(normalize)(rows, now)
    n = torch.ones(3, dtype=torch.float64)
    n = n * now if "loss" in normalize else n
    n = n * rows.norm(dim=1) if "norm" in normalize else n
    assert ((rows @ d) / n >= (d @ d) * (1 - 1e-9)).all()
    points = torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)).sample(torch.Size([200]))
    others = points @ (rows / n[:, None])  # no other point of the hull is shorter
    assert (d.norm() <= others.norm(dim=1) * (1 + 1e-12)).all()


def test_mgda_of_two_tasks_is_exact() -> None:
    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    d = MGDA()(rows)
    torch.testing.assert_close(rows @ d, (d @ d).expand(2), rtol=1e-12, atol=0)


def test_normalised_mgda_descends_on_all_tasks_where_the_authors_script_need_not() -> None:
    """The difference that is stated: weights of the normalised gradients belong on the normalised gradients."""
    rows = torch.tensor([[100.0, 0.0], [-0.9, 0.5]], dtype=torch.float64)
    ours = MGDA("norm")(rows)
    assert (rows @ ours > 0).all()
    units = rows / rows.norm(dim=1)[:, None]
    theirs = jd.MGDA().gramian_weighting(units @ units.T) @ rows
    assert (rows @ theirs).min() < 0


@pytest.mark.parametrize("normalize", ["loss", "norm", "loss+norm"])
def test_normalised_mgda_does_not_depend_on_units(normalize: Any) -> None:
    scales = torch.tensor([2.0**20, 1.0, 2.0**-12], dtype=torch.float64)
    one, two = (MGDA(normalize)(matrix() * s[:, None], losses() * s) for s in (torch.ones_like(scales), scales))
    if normalize == "loss+norm":
        assert not torch.allclose(one, two)  # the unit of a loss is divided out twice, so that it is back
        return
    torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


# Random methods


@pytest.mark.parametrize("make", [PCGrad, GradDrop, GradVac])
def test_random_methods_are_seeded(make: Callable[..., Any]) -> None:
    def run(seed: int) -> Tensor:
        method = make(seed=seed)
        return torch.stack([method(matrix(tasks=6, columns=4, seed=s)) for s in range(4)])

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))
    method = make()
    conflict = matrix(tasks=6, columns=4)
    assert not torch.equal(method(conflict), method(conflict))  # the order is drawn anew


def test_pcgrad_of_two_tasks_is_the_formula() -> None:
    g, h = torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0])
    expected = (g - (g @ h) / (h @ h) * h) + (h - (g @ h) / (g @ g) * g)
    torch.testing.assert_close(PCGrad()(torch.stack([g, h])), expected)


# CAGrad and others that look at sizes


def test_cagrad_is_the_papers_and_rescaled_the_authors_script() -> None:
    rows = matrix()
    torch.testing.assert_close(CAGrad(0.4)(rows), jd.CAGrad(c=0.4)(rows), rtol=0, atol=1e-6)
    torch.testing.assert_close(CAGrad(0.4, rescale=True)(rows) * 1.16, CAGrad(0.4)(rows), rtol=0, atol=1e-14)


def test_cagrad_is_at_least_as_good_for_the_worst_task_as_torchjd() -> None:
    for seed in range(8):
        rows = matrix(seed=seed)
        ours, theirs = CAGrad(0.4)(rows), jd.CAGrad(c=0.4)(rows)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-3)
        assert (rows @ ours).min() >= (rows @ theirs).min() - 1e-12


@pytest.mark.parametrize("make", [CAGrad, UPGrad, MGDA, AlignedMTL, aggregations.IMTLG])
@pytest.mark.parametrize("power", [-60, -20, 40])
def test_a_common_factor_multiplies_the_direction_even_where_torchjd_sees_zero(make: Any, power: int) -> None:
    assert torch.equal(make()(matrix() * 2.0**power), make()(matrix()) * 2.0**power)


def test_torchjd_sees_zero_in_large_gradients() -> None:
    """Why Gramians are scaled first: if this fails, TorchJD no longer needs it."""
    assert not jd.IMTLG()(matrix() * 1e13).any()


# GradNorm


class Pair(nn.Module):
    """Two quadratics without a common parameter value; the second improves slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))


def fast_and_slow(model: Pair) -> dict[str, Tensor]:
    x, y = model.theta
    coupling = 1e-3 * (x * y) ** 2
    return {"fast": 0.5 * x**2 + coupling, "slow": 0.005 * y**2 + coupling}


def test_gradnorm_moves_towards_the_slower_task_and_stays_positive() -> None:
    model = Pair()
    method = Aggregated(model, GradNorm(["fast", "slow"], dtype=torch.float64), outer=partial(SGD, lr=0.05))
    weights = []
    for step in range(200):
        weights.append(method.step(fast_and_slow).weights)
        if step == 5:
            method.end_epoch()
    assert all(value > 0 for each in weights for value in each.values())
    assert all(sum(each.values()) == pytest.approx(2) for each in weights)
    assert weights[0] == {"fast": 1, "slow": 1}
    assert weights[-1]["slow"] > 1.5
    plain = Pair()
    equal = Aggregated(plain, from_torchjd(jd.Sum()), outer=partial(SGD, lr=0.05))
    for _ in range(200):
        report = equal.step(fast_and_slow)
    assert method.step(fast_and_slow).losses["slow"] < report.losses["slow"]


def test_gradnorm_stays_positive_under_any_rate() -> None:
    method = Aggregated(Pair(), GradNorm(["fast", "slow"]), outer=partial(Adam, lr=1.0))
    for _ in range(30):
        assert min(method.step(fast_and_slow).weights.values()) > 0


def test_gradnorm_takes_the_mean_of_the_first_epoch_for_the_first_loss() -> None:
    method = GradNorm(["a", "b", "c"], dtype=torch.float64)
    for seed in range(3):
        method(matrix(), losses(seed))
    method.end_epoch()
    torch.testing.assert_close(method.initial, torch.stack([losses(s) for s in range(3)]).mean(0))
    method(matrix(), 10 * losses())
    method.end_epoch()
    torch.testing.assert_close(method.initial, torch.stack([losses(s) for s in range(3)]).mean(0))


# DB-MTL


def test_db_mtl_gives_all_gradients_the_length_of_the_longest() -> None:
    rows = matrix(scales=10.0)
    units = rows / rows.norm(dim=1)[:, None]
    torch.testing.assert_close(DBMTL()(rows), units.sum(0) * rows.norm(dim=1).max())


def test_db_mtl_leaves_out_gradients_of_zero_and_keeps_the_means_of_tasks_without_labels() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    torch.testing.assert_close(DBMTL()(rows), rows[0])
    method = DBMTL(0.5)
    method(rows)
    method(torch.tensor([[3.0, 0.0], [9.0, 9.0]]), labelled=torch.tensor([True, False]))
    torch.testing.assert_close(method.average, torch.tensor([[3.0, 2.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="should have the same shape in every step"):
        method(torch.ones(2, 3))


# Objects of TorchJD


def test_an_object_of_torchjd_that_keeps_buffers_can_be_saved() -> None:
    method = from_torchjd(jd.GradVac(), seed=1)
    method(matrix())
    state = method.state_dict()
    other = from_torchjd(jd.GradVac(), seed=1)
    other.load_state_dict(state)
    assert state.keys() == other.state_dict().keys()
    with pytest.raises(ValueError, match=r"should be one of `MGDAWeighting`. Found one of `GradVacWeighting`"):
        from_torchjd(jd.MGDA()).load_state_dict(state)


# Packages and parameters


@pytest.mark.parametrize("name", sorted(set(METHODS) - {make().name for make in NATIVE}))
def test_a_missing_package_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(module: str, *args: Any, **kwargs: Any) -> Any:
        if module.startswith("torchjd"):
            raise ModuleNotFoundError("No module named 'torchjd'")
        return real(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError) as caught:
        getattr(aggregations, name)()
    assert str(caught.value) == (
        "A package is missing: pip install 'torchsims[gradient]'. Found: No module named 'torchjd'"
    )


def test_native_methods_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchjd", None)
    for make in NATIVE:
        make()(matrix())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MGDA("l2"), "`normalize` should be one of"),  # type: ignore[arg-type]
        (lambda: CAGrad(-1.0), "Parameter `c` should be between 0 and 1e6. Found `c = -1.0`."),
        (lambda: CAGrad(float("inf")), "Parameter `c` should be between 0 and 1e6. Found `c = inf`."),
        (lambda: CAGrad(norm_eps=-1.0), "Parameter `norm_eps` should not be negative"),
        (lambda: NashMTL(-1.0), "Parameter `max_norm` should not be negative"),
        (lambda: NashMTL(update_every=0), "Parameter `update_every` should be a positive integer"),
        (lambda: FairGrad(-1.0), "Parameter `alpha` should be 0, or between 0.1 and 10"),
        (lambda: FairGrad(20.0), "Parameter `alpha` should be 0, or between 0.1 and 10. Found `alpha = 20.0`."),
        (lambda: AlignedMTL("max"), "Parameter `scale` should be one of"),  # type: ignore[arg-type]
        (lambda: GradDrop(2.0), "Parameter `leak` should be between 0 and 1. Found `leak = 2.0`."),
        (lambda: GradVac(2.0), "Parameter `beta` should be between 0 and 1"),
        (lambda: GradVac(eps=-1.0), "Parameter `eps` should not be negative"),
        (lambda: UPGrad(reg_eps=-1.0), "Parameter `reg_eps` should not be negative"),
        (lambda: GradNorm(["a"], -1.0), "Parameter `alpha` should not be negative"),
        (lambda: GradNorm(["a", "a"]), "Parameter `tasks` should hold distinct names"),
        (lambda: DBMTL(1.0), "Parameter `beta` should be at least 0 and below 1. Found `beta = 1.0`."),
    ],
)
def test_parameters_that_make_no_sense_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        *(partial(CAGrad, c) for c in (0.0, 1e-300, 1e6)),
        *(partial(CAGrad, rescale=True, norm_eps=eps) for eps in (0.0, 1e-300, 1e300)),
        *(partial(NashMTL, norm) for norm in (1e-300, 1e300, float("inf"))),
        partial(NashMTL, update_every=10**30),
        *(partial(FairGrad, alpha) for alpha in (0.0, 0.1, 10.0)),
    ],
)
def test_the_most_extreme_options_give_finite_directions(make: Callable[[], aggregations.Aggregation]) -> None:
    gradients = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    for rows in (gradients, torch.ones(3, 2), torch.zeros(3, 2), torch.tensor([[1.0, 0.0], [-1.0, 0.1], [0.0, 1e-3]])):
        assert make()(rows).isfinite().all()


@every_gradient_level
def test_the_direction_of_zero_gradients_is_zero(case: GradientLevel) -> None:
    assert not case.make(TASKS)(torch.zeros(3, 4)).any()


def test_cagrad_stands_still_where_units_differ_unless_norm_eps_is_small() -> None:
    random = torch.Generator().manual_seed(0)
    sizes = torch.tensor([1.0, 1e-4, 1e4], dtype=torch.float64)
    gradients = sizes[:, None] * torch.randn(3, 50, generator=random, dtype=torch.float64)
    assert not CAGrad(0.4)(gradients).any()
    mean, found = gradients.mean(0), CAGrad(0.4, norm_eps=1e-8)(gradients)
    assert (found - mean).norm() <= 0.4 * mean.norm() * (1 + 1e-6)
    assert (gradients @ found).min() > (gradients @ mean).min()  # the worst task gains
