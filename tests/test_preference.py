"""A preference means something: more of it for a task never ends with a larger loss of that task, in any units."""

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from torchsims import SIMS, Scalarized, merit
from torchsims.scalarizations import GLS, PBI, STCH, LogMerit, Scalarization

DOUBLE = torch.float64
RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the preferences of A and B
FLOORS = (0.5, 0.05, 0.005)  # the loss of A and B at their own centres
TEMPERATURES = (0.1, 0.3, 1.0, 3.0)
STARTS = ((0.6, 0.2), (0.2, 0.6), (0.2, 0.0), (-1.0, 0.5))
UNITS = (1.0, 1000.0)  # the loss of A is multiplied with
CENTRES = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=DOUBLE)
CASES = list(product(FLOORS, TEMPERATURES, STARTS, UNITS))
SPEED = 2.0  # rate of the challenger over that of the model

Weigh: TypeAlias = Callable[..., tuple[Tensor, Tensor]]
"""Losses of both copies, first losses, preferences and temperatures to the coefficients of both copies."""


@cache
def excess_of_a(weigh: Weigh, steps: int = 1500) -> Tensor:
    """Return the loss of A above its floor at the end of the runs of all cases, `case x ratio`.

    Two squared distances in the plane; all runs advance as one tensor, each with a rate that suits its curvature.
    """
    rows = [(*case, ratio) for case in CASES for ratio in RATIOS]
    c, tau, unit, p = (torch.tensor([row[i] for row in rows], dtype=DOUBLE) for i in (0, 1, 3, 4))
    units, p = torch.stack([unit, unit**0], -1), torch.stack([p, p**0], -1)
    theta = torch.tensor([row[2] for row in rows], dtype=DOUBLE)
    prime = theta.clone()

    def losses(points: Tensor) -> tuple[Tensor, Tensor]:
        z = points.unsqueeze(-2) - CENTRES  # (run, task, 2)
        return units * (z.square().sum(-1) + c.unsqueeze(-1)), 2 * units.unsqueeze(-1) * z

    first, _ = losses(theta)
    for _ in range(steps):
        (here, g), (there, g_prime) = losses(theta), losses(prime)
        rate = (0.3 * torch.minimum(here, there) / units).amin(-1) * (1.5 * tau).clamp(max=1) / SPEED
        w, w_prime = weigh(here, there, first, p, tau)
        theta = theta - rate.unsqueeze(-1) * torch.einsum("rt,rtd->rd", w, g)
        prime = prime - SPEED * rate.unsqueeze(-1) * torch.einsum("rt,rtd->rd", w_prime, g_prime)
    return (losses(theta)[0] / units)[:, 0].sub(c).reshape(len(CASES), len(RATIOS))


def sims(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    w = merit.weights(here, there, tau=tau, preference=p, reference=first)
    return w / here, merit.coefficients(here, there, tau=tau)[1]


def factor(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """A factor inside the log-sum-exp of the merit function itself: p shifts d by tau ln p."""
    w = torch.softmax((there / here).log() / tau.unsqueeze(-1) + p.log(), -1)
    return w / here, w / there


def constant(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """The preference objective with a penalty of constant weight, ten."""
    w_0 = torch.softmax(((here / first).log() + p.log()) / tau.unsqueeze(-1), -1)
    w = torch.softmax((there / here).log() / tau.unsqueeze(-1), -1)
    return (w_0 + 10 * w) / 11 / here, w / there


def gls(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    return p / p.sum(-1, keepdim=True) / here, torch.zeros_like(there)


def stch(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    w = p / p.sum(-1, keepdim=True)
    return w * torch.softmax(w * here / tau.unsqueeze(-1), -1), torch.zeros_like(there)


def objective(here: Tensor, there: Tensor, first: Tensor, p: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """The preference objective by itself: LogMerit, and normalised STCH."""
    return torch.softmax(((here / first).log() + p.log()) / tau.unsqueeze(-1), -1) / here, torch.zeros_like(there)


def rises(excess: Tensor) -> list[Any]:
    """Return the cases in which more preference for A ends with a larger loss of A."""
    return [case for case, row in zip(CASES, excess.tolist(), strict=True) if max(torch.tensor(row).diff()) > 1e-6]


@pytest.mark.parametrize("weigh", [sims, objective], ids=["SIMS", "LogMerit"])
def test_more_preference_never_ends_with_a_larger_loss(weigh: Weigh) -> None:
    """Every floor, temperature and start, and the loss of A as it is and times 1000."""
    assert rises(excess_of_a(weigh)) == []


@pytest.mark.parametrize("weigh", [sims, objective], ids=["SIMS", "LogMerit"])
def test_the_outcomes_do_not_depend_on_the_units(weigh: Weigh) -> None:
    plain, scaled = excess_of_a(weigh).reshape(-1, len(UNITS), len(RATIOS)).unbind(1)
    torch.testing.assert_close(scaled, plain, rtol=1e-6, atol=1e-9)


def test_a_penalty_that_ends_at_the_front_leaves_the_minimiser_where_it_is() -> None:
    spread = [i for i, (c, tau, *_) in enumerate(CASES) if c >= 0.05 and tau <= 0.3]  # one minimiser each
    torch.testing.assert_close(excess_of_a(sims)[spread], excess_of_a(objective)[spread], rtol=0, atol=1e-4)
    near_a, *_, near_b = excess_of_a(sims)[CASES.index((0.05, 0.1, (0.6, 0.2), 1.0))].flip(0)
    assert near_b - near_a > 0.4  # cold enough, the preferences reach points all along the front


def test_a_factor_inside_the_merit_function_does_not_steer() -> None:
    """Negative control: it reverses the preference where losses can get small."""
    excess = excess_of_a(factor)
    assert len(rises(excess)) > len(CASES) / 3
    reversed_ = excess[CASES.index((0.05, 0.3, (0.6, 0.2), 1.0))]
    assert (reversed_.diff() > 0).all()


def test_a_penalty_of_constant_weight_does_not_steer() -> None:
    """Negative control: the smoothed merit function is not constant on the front, and moves the outcome."""
    assert rises(excess_of_a(constant)) != []


def test_gls_is_monotone_and_chooses_one_end_where_losses_can_get_small() -> None:
    excess = excess_of_a(gls)
    assert rises(excess) == []
    small = [i for i, (c, *_) in enumerate(CASES) if c == min(FLOORS)]
    assert not ((excess[small] > 0.02) & (excess[small] < 0.9)).any()


def test_plain_stch_is_monotone_for_two_tasks_in_units_that_suit_it() -> None:
    plain, _ = excess_of_a(stch).reshape(-1, len(UNITS), len(RATIOS)).unbind(1)
    assert (plain.diff() < 1e-6).all()


def test_plain_stch_can_reverse_a_preference_among_three_tasks() -> None:
    """Its weights stand inside the exponential: no sum over the tasks that is linear in them."""
    points = torch.tensor([[0.5, 4.9, 4.4], [0.8, 1.2, 5.4]], dtype=DOUBLE)
    for p, chosen in ((1.0, 0), (4.0, 1)):
        assert STCH(0.3, preference={"a": p}, tasks=("a", "b", "c"))(points).argmin() == chosen


MONOTONE: dict[str, Callable[..., Scalarization]] = {
    "LogMerit": LogMerit,
    "LogMerit hot": partial(LogMerit, 10.0),
    "LogMerit floored": partial(LogMerit, 0.1, floor=0.3),
    "GLS": GLS,
    "STCH normalised": partial(STCH, 0.1, normalize=True, warmup_epochs=0),
}


@pytest.mark.parametrize("name", MONOTONE)
def test_the_best_of_any_set_of_points_is_monotone_in_every_preference(name: str) -> None:
    """The proof needs no convexity, and no number of tasks."""
    tasks = tuple("abcd")
    points = torch.randn(
        40, 50, 4, generator=torch.Generator().manual_seed(0), dtype=DOUBLE
    ).exp()  # (set, point, task)
    for i, task in enumerate(tasks):
        best = []
        for p in (0.1, 0.5, 1.0, 2.0, 10.0):
            method = MONOTONE[name](preference={"a": 0.7, task: p}, tasks=tasks)
            method(torch.ones(40, 50, 4, dtype=DOUBLE))  # the first losses
            best.append(points[torch.arange(40), method.eval()(points).argmin(-1), i])
        assert (torch.stack(best).diff(dim=0) <= 0).all()


class Point(nn.Module):
    """A point in the plane."""

    def __init__(self, start: tuple[float, float]) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor(start, dtype=DOUBLE))


@pytest.mark.parametrize("unit", UNITS)
def test_a_stepper_takes_the_steps_of_the_formulas(unit: float) -> None:
    """The runs above are those of `SIMS`; one of them is taken with both, step by step."""
    start, tau, p, rate = (0.6, 0.2), 0.3, 4.0, 0.02
    model = Point(start)
    options: dict[str, Any] = {"outer": partial(SGD, lr=rate), "inner": partial(SGD, lr=SPEED * rate)}
    method = SIMS(model, tau=tau, preference={"a": p}, **options)

    def losses(x: Tensor) -> Tensor:
        z = x - CENTRES
        return torch.tensor([unit, 1.0], dtype=DOUBLE) * (z.square().sum(-1) + 0.05)

    theta, prime = (torch.tensor(start, dtype=DOUBLE, requires_grad=True) for _ in range(2))
    first = losses(theta).detach()
    preference, temperature = torch.tensor([p, 1.0], dtype=DOUBLE), torch.tensor(tau, dtype=DOUBLE)
    for _ in range(40):
        report = method.step(lambda model: dict(zip("ab", losses(model.x), strict=True)))
        here, there = losses(theta), losses(prime)
        w, w_prime = sims(here.detach(), there.detach(), first, preference, temperature)
        (g,), (g_prime,) = torch.autograd.grad(w @ here, theta), torch.autograd.grad(w_prime @ there, prime)
        assert list(report.weights.values()) == pytest.approx((w * here.detach()).tolist(), abs=1e-9)
        with torch.no_grad():
            theta -= rate * g
            prime -= SPEED * rate * g_prime
    torch.testing.assert_close(model.x.detach(), theta.detach(), rtol=0, atol=1e-9)


def test_the_penalty_is_the_merit_by_this_challenger() -> None:
    """Formula: (w_0 + gamma w) / (1 + gamma), gamma = exp(u / tau) - 1; u = 0 if the challenger is worse on a task."""
    here, first = torch.tensor([2.0, 3.0, 4.0]), torch.tensor([1.0, 5.0, 4.0])
    p, tau = torch.tensor([1.0, 2.0, 3.0]), 0.7
    w_0 = torch.softmax(((here / first).log() + p.log()) / tau, -1)
    for there in (torch.tensor([1.0, 1.0, 1.0]), torch.tensor([1.0, 2.9, 1.0]), torch.tensor([1.0, 3.1, 1.0])):
        gamma = (merit.u(here, torch.stack([here, there])) / tau).exp() - 1
        w = merit.weights(here, there, tau=tau, augment=0.1)
        found = merit.weights(here, there, tau=tau, augment=0.1, preference=p, reference=first)
        torch.testing.assert_close(found, (w_0 + gamma * w) / (1 + gamma))
    assert gamma == 0


def test_f0_has_the_weights_as_its_derivatives_where_there_is_no_penalty() -> None:
    losses = torch.tensor([2.0, 3.0, 4.0], dtype=DOUBLE, requires_grad=True)
    first, p = torch.tensor([1.0, 5.0, 4.0], dtype=DOUBLE), torch.tensor([1.0, 2.0, 3.0], dtype=DOUBLE)
    labelled = torch.tensor([True, False, True])
    (gradient,) = torch.autograd.grad(merit.f0(losses, first, p, tau=0.7, labelled=labelled), losses)
    here = losses.detach()
    w = merit.weights(here, here, tau=0.7, labelled=labelled, preference=p, reference=first)
    torch.testing.assert_close(gradient, w / here)
    with pytest.raises(ValueError, match="Parameter `reference` should be given with `preference`"):
        merit.weights(here, here, tau=0.7, preference=p)
    assert w[1] == 0


@pytest.mark.parametrize("method", [LogMerit, GLS, STCH, PBI])
def test_bad_preferences_are_refused(method: Callable[..., Scalarization]) -> None:
    values: tuple[Any, ...] = (0.0, -1.0, float("nan"), float("inf"), "2")
    for value in values:
        with pytest.raises(ValueError, match=r"`preference` should be positive and finite\. Found .* for task `a`\."):
            method(preference={"a": value}, tasks=("a", "b"))
    with pytest.raises(ValueError, match=r"should name tasks among \['a', 'b'\]\. Found `preference` for \['c'\]"):
        method(preference={"c": 1.0}, tasks=("a", "b"))
    for wrong in ([1.0, 2.0], "a", 2.0):
        with pytest.raises(TypeError, match=r'`preference` should be a mapping, such as `{"depth": 2\.0}`\. Found '):
            method(preference=wrong)


def test_equal_preferences_are_the_preference_objective_and_none_is_the_method_without() -> None:
    losses, now = torch.tensor([1.0, 4.0], dtype=DOUBLE), torch.tensor([0.5, 1.0], dtype=DOUBLE)
    equal, scaled = LogMerit(preference={"a": 1.0, "b": 1.0}), LogMerit(preference={"a": 7.0, "b": 7.0})
    for method in (equal, scaled):
        method(losses)
    expected = merit.f0(now, losses, torch.ones(2, dtype=DOUBLE), tau=1.0)
    torch.testing.assert_close(equal(now), expected)
    torch.testing.assert_close(scaled(now), expected + torch.tensor(7.0, dtype=DOUBLE).log())  # only ratios matter
    assert torch.equal(LogMerit(preference=None, tasks=("a", "b"))(losses), LogMerit()(losses))
    with pytest.raises(ValueError, match=r"Parameter `augment` should be 0 with `preference`\. Found `augment = 0.1`"):
        LogMerit(augment=0.1, preference={"a": 1.0})
    with pytest.raises(ValueError, match="Parameter `weights` should be None with `preference`"):
        STCH(weights=[1.0, 2.0], preference={"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("make", [*MONOTONE.values(), STCH, PBI])
def test_runs_side_by_side_may_have_preferences_of_their_own(make: Callable[..., Scalarization]) -> None:
    generator = torch.Generator().manual_seed(0)
    p, losses = (torch.rand(5, 2, 3, generator=generator, dtype=DOUBLE) + 0.1 for _ in range(2))
    names = ("a", "b", "c")
    together = make(preference={"a": p[..., 0], "b": 2.0, "c": p[..., 2]}, tasks=names)
    each = [[make(preference={"a": float(q[0]), "b": 2.0, "c": float(q[2])}, tasks=names) for q in row] for row in p]
    for factor in (1.0, torch.rand(5, 2, 3, generator=generator, dtype=DOUBLE)):  # the first losses, and others
        found = together(factor * losses)
        alone = [[m(x) for m, x in zip(*pair, strict=True)] for pair in zip(each, factor * losses, strict=True)]
        torch.testing.assert_close(found, torch.stack([torch.stack(row) for row in alone]))
    with pytest.raises(ValueError, match="`preference` should be positive"):
        make(preference={"a": torch.tensor([1.0, 0.0])}, tasks=names)


PARTLY = [*MONOTONE.values(), STCH, PBI]
NAMED = {"c": torch.tensor(3.0), "a": torch.tensor(0.5), "b": torch.tensor(2.0)}  # not sorted


class Three(nn.Module):
    """Three parameters, with a loss each."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor([1.0, 2.0, 3.0], dtype=DOUBLE))

    def named(self) -> dict[str, Tensor]:
        square = 1 + self.x.square() + self.x.sum().square()
        return {"c": 5 * square[2], "a": square[0], "b": 0.1 * square[1]}


def stepper(method: Scalarization) -> tuple[Three, Scalarized]:
    model = Three()
    return model, Scalarized(model, method, outer=partial(SGD, lr=0.01))


@pytest.mark.parametrize("make", PARTLY)
def test_tasks_that_are_not_named_have_preference_one(make: Callable[..., Scalarization]) -> None:
    values = torch.tensor([0.5, 2.0, 3.0])
    known = make(preference={"a": 1.0, "b": 2.0, "c": 1.0}, tasks=("a", "b", "c"))
    partly = make(preference={"b": 2.0})
    for factor in (1.0, 0.7):  # the first losses, and others
        expected = known(factor * values)
        assert torch.equal(partly({task: factor * loss for task, loss in NAMED.items()}), expected)
    assert torch.equal(partly.eval()(0.7 * values), known.eval()(0.7 * values))  # in the order of the names so far
    others = make(preference={"b": 1.0})
    others(NAMED)
    assert not torch.equal(others.eval()(0.7 * values), known(0.7 * values))


@pytest.mark.parametrize("make", PARTLY)
def test_steps_learn_the_names_of_the_tasks_and_go_on_from_a_state(make: Callable[..., Scalarization]) -> None:
    (model, partly), (twin, known) = (
        stepper(make(preference={"b": 2.0})),
        stepper(make(preference={"b": 2.0}, tasks=("a", "b", "c"))),
    )
    for _ in range(3):
        report, expected = (each.step(lambda model: model.named()) for each in (partly, known))
        assert report.weights == expected.weights
    other, resumed = stepper(make(preference={"b": 2.0}))
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(partly.state_dict())
    for each in (partly, known, resumed):
        each.step(lambda model: model.named())
    assert torch.equal(model.x, twin.x)
    assert torch.equal(model.x, other.x)


@pytest.mark.parametrize("make", PARTLY)
def test_a_preference_for_a_name_that_is_not_a_task_is_one_sentence_at_the_first_step(
    make: Callable[..., Scalarization],
) -> None:
    sentence = r"^Parameter `preference` should name tasks among \['a', 'b', 'c'\]\. Found `preference` for \['d'\]\.$"
    with pytest.raises(ValueError, match=sentence):
        make(preference={"d": 2.0, "b": 2.0})(NAMED)
    model, method = stepper(make(preference={"d": 2.0}))
    before = model.x.detach().clone()
    with pytest.raises(ValueError, match=sentence):
        method.step(lambda model: model.named())
    assert torch.equal(model.x, before)
    report = method.step(lambda model: {"d" if task == "b" else task: loss for task, loss in model.named().items()})
    assert set(report.weights) == {"a", "c", "d"}  # the failed step has fixed nothing


@pytest.mark.parametrize("make", PARTLY)
def test_losses_without_names_are_counted_in_a_step_and_need_all_names_elsewhere(
    make: Callable[..., Scalarization],
) -> None:
    _, counted = stepper(make(preference={"1": 2.0}))
    _, named = stepper(make(preference={"b": 2.0}))
    rows = (counted.step(lambda model: [model.named()[task] for task in "abc"]), named.step(lambda m: m.named()))
    assert list(rows[0].weights.values()) == list(rows[1].weights.values())
    sentence = (
        r"^Parameter `tasks` should name all tasks where the losses have no names\. Found 3 losses, and \['b'\]\.$"
    )
    with pytest.raises(ValueError, match=sentence):
        make(preference={"b": 2.0})(torch.tensor([0.5, 2.0, 3.0]))
    make(preference={"a": 1.0, "b": 2.0, "c": 1.0})(torch.tensor([0.5, 2.0, 3.0]))


def test_an_ideal_point_by_name_names_the_tasks_of_a_preference() -> None:
    for method in (STCH, PBI):
        partly = method(ideal={"a": 0.1, "b": 0.2, "c": 0.3}, preference={"b": 2.0})
        known = method(ideal=[0.1, 0.2, 0.3], preference={"b": 2.0}, tasks=list("abc"))
        assert torch.equal(partly(NAMED), known(NAMED))
        turned = method(ideal={"a": 0.1, "b": 0.2, "c": 0.3}, preference={"b": 2.0}, tasks=list("cba"))
        torch.testing.assert_close(turned(torch.tensor([3.0, 2.0, 0.5])), known(NAMED))
        with pytest.raises(ValueError, match=r"should name tasks among \['a', 'b'\]"):
            method(ideal={"a": 0.1, "b": 0.2}, preference={"c": 2.0})


def test_sims_takes_a_mapping_alone() -> None:
    rates: dict[str, Any] = {"outer": partial(SGD, lr=0.01), "inner": partial(SGD, lr=0.02)}
    wrong: Any
    for wrong in ([1.0, 2.0], "a"):
        with pytest.raises(TypeError, match=r'`preference` should be a mapping, such as `{"depth": 2\.0}`\. Found '):
            SIMS(Three(), preference=wrong, **rates)
