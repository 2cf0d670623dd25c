"""The paper's theorems, propositions and lemmas on problems where everything is known.

Each block names what it checks. Where the paper's text and the mathematics differ, the block says so ("Slip") and tests
what is true. Theorems, propositions and lemmas are numbered by kind in the order of the main text; the rest is cited by
its label. A finite set of challengers stands for the space; it always holds the point itself and the points that
attain the supremum, so that the merit over the set is the merit.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from torchsims import merit
from torchsims.transforms import Asinh, Identity, Log, Power, Transform

DOUBLE = torch.float64
ROUNDING = 1e-12
TAUS = (3.0, 1.0, 0.3, 0.1, 0.01, 0.001)
PROXES = (0.0, 0.05, 1.0)
TRANSFORMS = [Log(), Log(2.5), Identity(), Power(2.0), Power(0.5), Asinh(0.1)]


# --- Problems ---------------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Points, whether each is weakly Pareto-optimal, and challengers that hold what attains the supremum."""

    theta: Tensor  # (point, dimension)
    optimal: Tensor  # (point,)
    challengers: Tensor  # (challenger, dimension)
    losses: Tensor  # (point, task)
    challenger_losses: Tensor  # (challenger, task)
    distances: Tensor  # (point, challenger), squared

    def u(self, prox: float = 0.0, transform: Transform | None = None) -> Tensor:
        psi = Log() if transform is None else transform
        return merit.u(self.losses, self._all(), prox=prox, squared_distances=self.distances, transform=psi)

    def v(self, tau: float, prox: float = 0.0, transform: Transform | None = None) -> Tensor:
        psi = Log() if transform is None else transform
        return merit.v(self.losses, self._all(), tau=tau, prox=prox, squared_distances=self.distances, transform=psi)

    def _all(self) -> Tensor:
        return self.challenger_losses.expand(len(self.theta), *self.challenger_losses.shape)


def quadratics(points: Tensor, centres: Tensor) -> Tensor:
    """Return L_i = |theta - c_i|^2 + 1, `... x m`: the Pareto set is the convex hull of the centres."""
    return (points.unsqueeze(-2) - centres).square().sum(-1) + 1


def problem(theta: Tensor, optimal: Tensor, challengers: Tensor, centres: Tensor) -> Problem:
    distances = (theta.unsqueeze(1) - challengers).square().sum(-1)
    losses, of_challengers = quadratics(theta, centres), quadratics(challengers, centres)
    return Problem(theta, optimal, challengers, losses, of_challengers, distances)


@cache
def line() -> Problem:
    """Return two tasks on the line, centres -1 and 1, Pareto set [-1, 1].

    L_1 / L_2 takes the same value at theta and 2 / theta, so beyond 2 the best challenger is 2 / theta.
    """
    theta = (torch.arange(-80, 81, dtype=DOUBLE) / 20).unsqueeze(1)  # (point, 1), holds -1 and 1 exactly
    grid = torch.arange(-400, 401, dtype=DOUBLE) / 100
    beyond = 2 / theta[theta.abs() >= 2]
    centres = torch.tensor([[-1.0], [1.0]], dtype=DOUBLE)
    return problem(theta, theta[:, 0].abs() <= 1, torch.cat([grid, beyond]).unsqueeze(1), centres)


@cache
def triangle() -> Problem:
    """Return three tasks in the plane, Pareto set the triangle; an outer point is beaten by its projection."""
    generator = torch.Generator().manual_seed(0)
    corners = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.5, 1.5]], dtype=DOUBLE)
    mixture = -torch.rand(60, 3, dtype=DOUBLE, generator=generator).log()
    inner = torch.cat([corners, (mixture / mixture.sum(-1, keepdim=True)) @ corners])
    # From a point of an edge straight outwards: the edge point is the projection.
    edges = corners.roll(-1, 0) - corners
    outwards = torch.stack([edges[:, 1], -edges[:, 0]], -1)  # the corners turn to the left
    along = torch.rand(20, 3, 1, dtype=DOUBLE, generator=generator)
    feet = (corners + along * edges).reshape(-1, 2)
    outer = feet + ((0.01 + torch.rand(20, 3, 1, dtype=DOUBLE, generator=generator)) * outwards).reshape(-1, 2)
    theta = torch.cat([inner, outer])
    optimal = torch.arange(len(theta)) < len(inner)
    strays = 4 * torch.rand(200, 2, dtype=DOUBLE, generator=generator) - 1
    on_the_way = outer + 0.01 * (feet - outer)  # what a large proximal term still allows
    return problem(theta, optimal, torch.cat([theta, feet, on_the_way, strays]), corners)


PROBLEMS = [pytest.param(line, id="line"), pytest.param(triangle, id="triangle")]


# --- Theorem 1: u is a merit function for weak Pareto optimality ------------------------------------------------------


@pytest.mark.parametrize("psi", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("make", PROBLEMS)
def test_theorem_1_u_is_never_negative_and_zero_exactly_at_weakly_optimal_points(
    make: Callable[[], Problem], psi: Transform
) -> None:
    known = make()
    u = known.u(transform=psi)
    assert (u >= 0).all()
    assert torch.equal(u == 0, known.optimal)


def test_u_on_the_line_equals_its_closed_form() -> None:
    """ln(1 + (|theta| - 1)^2) up to 2, where the nearest centre is the best challenger, then ln(theta^2 / 2)."""
    known = line()
    x = known.theta[:, 0].abs()
    near = (1 + (x - 1).clamp(min=0).square()).log()
    expected = torch.where(x <= 2, near, (x.square() / 2).log())
    torch.testing.assert_close(known.u(), expected, rtol=1e-12, atol=ROUNDING)


def test_slip_with_the_logarithm_and_infimum_zero_u_is_infinite() -> None:
    """Slip: u is finite only for losses bounded away from zero; L_i = theta^2 has u(1) = -2 ln(best challenger)."""
    losses = torch.ones(2, dtype=DOUBLE)
    for nearest in (1e-2, 1e-8, 1e-100):
        challengers = torch.full((1, 2), nearest**2, dtype=DOUBLE)
        torch.testing.assert_close(
            merit.u(losses, challengers), torch.tensor(-2 * math.log(nearest), dtype=DOUBLE), rtol=1e-12, atol=0.0
        )
    assert merit.u(losses, torch.zeros(1, 2, dtype=DOUBLE)).isinf()


def test_slip_p_max_and_chebyshev_vanish_only_at_the_ideal_point() -> None:
    """Slip: the paper defines a merit function as zero at every weakly Pareto-optimal point; these two are not."""
    known = line()
    ideal = torch.ones(2, dtype=DOUBLE)
    task_weights = torch.tensor([0.3, 0.7], dtype=DOUBLE)
    on_the_set = known.losses[known.optimal]
    assert (known.u()[known.optimal] == 0).all()
    assert merit.p_max(on_the_set, ideal).min() == 1.0  # at theta = 0
    assert merit.chebyshev(on_the_set, task_weights, ideal).min() > 0.4
    # Where the tasks agree the ideal point is attained, and there they do vanish, and nowhere else.
    agreeing = quadratics(known.theta, torch.zeros(2, 1, dtype=DOUBLE))
    at_the_centre = known.theta[:, 0] == 0
    assert torch.equal(merit.p_max(agreeing, ideal) == 0, at_the_centre)
    assert torch.equal(merit.chebyshev(agreeing, task_weights, ideal) == 0, at_the_centre)


# --- Propositions 1 and 2: v is a smoothing of u, and close to it -----------------------------------------------------


@pytest.mark.parametrize("make", PROBLEMS)
@pytest.mark.parametrize("prox", PROXES)
def test_proposition_2_v_is_below_u_by_at_most_tau_ln_m(make: Callable[[], Problem], prox: float) -> None:
    known = make()
    m = known.losses.shape[-1]
    u = known.u(prox)
    for tau in TAUS:
        gap = u - known.v(tau, prox)
        assert (gap >= -ROUNDING).all()
        assert (gap <= tau * math.log(m) + ROUNDING).all()


@pytest.mark.parametrize("make", PROBLEMS)
@pytest.mark.parametrize("prox", PROXES)
def test_proposition_1_v_rises_to_u_as_tau_falls_to_zero(make: Callable[[], Problem], prox: float) -> None:
    known = make()
    values = torch.stack([known.v(tau, prox) for tau in TAUS])  # (tau, point), tau falling
    assert (values.diff(dim=0) >= -ROUNDING).all()
    torch.testing.assert_close(values[-1], known.u(prox), rtol=0.0, atol=1e-3 * math.log(3))


def test_slip_without_the_proximal_term_v_can_have_a_kink() -> None:
    """Slip: a minimum of smooth functions need not be smooth, so Proposition 1 needs a unique inner minimiser.

    psi(L_i) = cos(pi x) +- tanh(x) is smooth and Lipschitz. Seen from x = 0 the challengers near -1 and 1 are equally
    good and pull in opposite directions: v has the one-sided slopes -s and s, with s far from zero.
    """

    def losses(x: Tensor) -> Tensor:
        wells, tilt = torch.cos(torch.pi * x), torch.tanh(x)
        return torch.stack([wells + tilt, wells - tilt], -1).exp()

    challengers = losses(torch.arange(-3000, 3001, dtype=DOUBLE) / 1000)
    step = 1e-4
    left, middle, right = (
        merit.v(losses(torch.tensor(x, dtype=DOUBLE)), challengers, tau=0.5) for x in (-step, 0.0, step)
    )
    assert (middle - left) / step < -0.5
    assert (right - middle) / step > 0.5


# --- Lemma lem:u_lambda_merit of the appendix: u with a proximal term -------------------------------------------------


@pytest.mark.parametrize("make", PROBLEMS)
@pytest.mark.parametrize("prox", PROXES)
def test_u_with_a_proximal_term_is_never_negative_and_zero_at_weakly_optimal_points(
    make: Callable[[], Problem], prox: float
) -> None:
    known = make()
    u = known.u(prox)
    assert (u >= 0).all()
    assert (u[known.optimal] == 0).all()
    assert (u <= known.u()).all()


# --- Proposition 3: what v still says about optimality ----------------------------------------------------------------


@pytest.mark.parametrize("make", PROBLEMS)
@pytest.mark.parametrize("prox", PROXES)
def test_proposition_3_lower_bound_and_necessity(make: Callable[[], Problem], prox: float) -> None:
    """(1) v >= -tau ln m everywhere; (2) v <= 0 at weakly optimal points. Only the unsmoothed merit is zero there."""
    known = make()
    m = known.losses.shape[-1]
    for tau in TAUS:
        v = known.v(tau, prox)
        assert (v >= -tau * math.log(m) - ROUNDING).all()
        assert (v[known.optimal] <= 0).all()
    assert (known.v(1.0, prox)[known.optimal] < 0).any()


@pytest.mark.parametrize("make", PROBLEMS)
@pytest.mark.parametrize("tau", [1.0, 0.3, 0.1])
def test_proposition_3_approximate_sufficiency_is_a_factor_m_to_the_tau(
    make: Callable[[], Problem], tau: float
) -> None:
    """(3) Where v <= 0, no challenger divides every loss by more than m^tau.

    Slip: the tolerance tau ln m is one of psi(L_i); with psi = ln it is a factor on the losses and not a difference.
    """
    known = make()
    m = known.losses.shape[-1]
    approved = known.v(tau) <= 0
    assert (approved & ~known.optimal).any()  # the tolerance is needed: not all of these points are optimal
    ratio = known.losses[approved].unsqueeze(1) / known.challenger_losses  # (point, challenger, task)
    assert (ratio.amin(-1) <= m**tau * (1 + ROUNDING)).all()


def test_slip_the_tolerance_tau_ln_m_is_no_difference_of_losses() -> None:
    """The same point in units a thousand times smaller: v has not changed, every loss falls by more than tau ln m."""
    known, tau = line(), 0.3
    losses, challengers = 1000 * known.losses, 1000 * known.challenger_losses
    approved = merit.v(losses, challengers.expand(len(losses), *challengers.shape), tau=tau) <= 0
    assert torch.equal(approved, known.v(tau) <= 0)
    fall = (losses[approved].unsqueeze(1) - challengers).amin(-1).amax(-1)  # (point,)
    assert (fall > tau * math.log(2)).any()


def test_proposition_3_sufficiency_where_the_transformed_losses_are_convex() -> None:
    """(4) With L_i = exp(|theta - c_i|^2 / 2), ln L_i is convex, and v <= -tau ln m holds at optimal points only.

    At exactly one, moreover: v = -tau ln m says that theta itself minimises h(theta, .), whose gradient there is the
    plain mean of the gradients of ln L_i. The condition is sufficient and far from necessary.
    """
    known = line()
    losses, of_challengers = ((0.5 * (x - 1)).exp() for x in (known.losses, known.challenger_losses))
    convex = Problem(
        known.theta[::2],  # so far apart that the grid of challengers holds a better point than theta for all but one
        known.optimal[::2],
        known.challengers,
        losses[::2],
        of_challengers,
        known.distances[::2],
    )
    for tau, prox in ((1.0, 0.05), (1.0, 1.0), (0.1, 0.3)):
        attained = convex.v(tau, prox) <= -tau * math.log(2) + ROUNDING
        assert convex.theta[attained].tolist() == [[0.0]]


@pytest.mark.parametrize("make", PROBLEMS)
def test_proposition_3_sufficiency_also_holds_for_convex_losses_under_the_logarithm(
    make: Callable[[], Problem],
) -> None:
    """(4) for convex L_i although ln L_i is not convex: the text is right, but not by its proof.

    Slip: the text asks for convex L_i, the proof uses convex psi(L_i). For a psi with positive slope the text can be
    saved: u_lambda(theta) = 0 leaves no direction in which every psi(L_i), hence every L_i, falls at first order, and
    convexity of L_i turns that into weak optimality. The next test shows that the slope must not vanish.
    """
    known = make()
    m = known.losses.shape[-1]
    curvature = 2 * (1 - (known.losses - 1)) / known.losses.square()  # (ln L)'' along the ray from the centre
    assert (curvature < 0).any()
    for tau, prox in ((1.0, 0.05), (1.0, 1.0), (0.1, 0.3)):
        attained = known.v(tau, prox) <= -tau * math.log(m) + ROUNDING
        assert known.optimal[attained].all()
        assert torch.equal(known.u(prox) == 0, known.optimal)


class CubeAboutOne(Transform):
    """(x - 1)^3: strictly increasing, yet flat at 1."""

    def __call__(self, losses: Tensor) -> Tensor:
        return (losses - 1) ** 3

    def slope(self, losses: Tensor) -> Tensor:
        return 3 * (losses - 1) ** 2


def test_slip_convex_losses_are_not_enough_for_every_increasing_transform() -> None:
    """(4) fails as printed: L_1 = L_2 = theta^2 is convex and (x - 1)^3 increases, but v(1) = -tau ln 2 for lambda = 4.

    (theta'^2 - 1)^3 + lambda / 2 (theta' - 1)^2 is never negative for lambda >= 27 / 8, though theta = 0 is better.
    """
    x = torch.arange(-800, 801, dtype=DOUBLE) / 200
    challengers = x.square().unsqueeze(-1).expand(-1, 2)
    losses, psi, tau, distances = torch.ones(2, dtype=DOUBLE), CubeAboutOne(), 0.3, (x - 1).square()
    v = merit.v(losses, challengers, tau=tau, transform=psi, prox=4.0, squared_distances=distances)
    assert v <= -tau * math.log(2) + ROUNDING
    assert merit.u(losses, challengers, transform=psi) == 1.0  # theta = 1 is far from weakly optimal
    v = merit.v(losses, challengers, tau=tau, transform=psi, prox=3.0, squared_distances=distances)
    assert v > -tau * math.log(2) + 1e-3  # 3 < 27 / 8: the smaller term no longer hides the descent


# --- Lemma 1: the inner minimiser is unique for lambda above the modulus of weak convexity ----------------------------

MODULUS = 0.25
"""ln(1 + r^2) has the curvatures 2 (1 - r^2) / (1 + r^2)^2 >= -1/4 (at r^2 = 3) and 2 / (1 + r^2) > 0."""


def test_the_modulus_of_weak_convexity_of_the_log_of_a_quadratic_is_a_quarter() -> None:
    x = (torch.arange(-4000, 4001, dtype=DOUBLE) / 500).requires_grad_()
    (slope,) = torch.autograd.grad((1 + x.square()).log().sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    torch.testing.assert_close(curvature.min(), torch.tensor(-MODULUS, dtype=DOUBLE), rtol=1e-5, atol=0.0)
    torch.testing.assert_close(x[curvature.argmin()].abs(), torch.tensor(3.0, dtype=DOUBLE).sqrt(), rtol=1e-3, atol=0.0)
    assert slope.max() == 1.0  # the Lipschitz constant of ln L, at r = 1
    assert curvature.max() == 2.0  # and its smoothness, at r = 0


@pytest.mark.parametrize("tau", [3.0, 0.3, 0.05])
def test_lemma_1_h_is_strongly_convex_in_the_challenger_above_the_modulus(tau: float) -> None:
    """The curvature of h(theta, .) is at least lambda - mu, and negative somewhere for a lambda below mu.

    Slip: the paper's proof prints lambda + mu > 0 where lambda - mu > 0 is meant.
    """
    known = line()
    prime = torch.arange(-1200, 1201, dtype=DOUBLE) / 200  # (challenger,)
    of_prime = quadratics(prime.unsqueeze(1), torch.tensor([[-1.0], [1.0]], dtype=DOUBLE))
    distance = (known.theta - prime).square()  # (point, challenger)
    for prox, convex in ((MODULUS + 0.05, True), (MODULUS - 0.1, False)):
        h = merit.h(known.losses.unsqueeze(1), of_prime, tau=tau, prox=prox, squared_distance=distance)
        curvature = h.diff(n=2) * 200**2
        assert bool((curvature >= prox - MODULUS - 1e-6).all())
        assert bool((curvature > 0).all()) == convex


def test_lemma_1_the_inner_minimiser_is_continuous_above_the_modulus_and_jumps_below_it() -> None:
    """With one task the minimiser moves at most lambda / (lambda - mu) as fast as theta; below mu there can be two."""
    theta = torch.arange(300, 451, dtype=DOUBLE) / 50  # 6 to 9
    prime = torch.arange(-200, 2401, dtype=DOUBLE) / 200
    losses, of_prime = (1 + theta.square()).reshape(-1, 1, 1), (1 + prime.square()).unsqueeze(-1)
    distance = (theta.unsqueeze(1) - prime).square()

    def largest_jump(prox: float) -> float:
        h = merit.h(losses, of_prime, tau=1.0, prox=prox, squared_distance=distance)
        return float(prime[h.argmin(-1)].diff().abs().max())

    prox = 0.3
    assert largest_jump(prox) <= prox / (prox - MODULUS) * 0.02 + 2 / 200
    assert largest_jump(0.15) > 2.0


# --- Lemma 2: the smoothness of h -------------------------------------------------------------------------------------


def joint_curvatures(tau: float, prox: float, slopes: Tensor, at: tuple[float, float]) -> Tensor:
    """Return the eigenvalues of the Hessian of h in (theta, theta') for psi(L_i) = slopes_i * theta."""

    def h(point: Tensor) -> Tensor:
        losses, challenger = (slopes * point[0]).exp(), (slopes * point[1]).exp()
        return merit.h(losses, challenger, tau=tau, prox=prox, squared_distance=(point[0] - point[1]).square())

    point = torch.tensor(at, dtype=DOUBLE, requires_grad=True)
    (gradient,) = torch.autograd.grad(h(point), point, create_graph=True)
    rows = [torch.autograd.grad(part, point, retain_graph=True)[0] for part in gradient]
    curvatures: Tensor = torch.linalg.eigvalsh(torch.stack(rows))
    return curvatures


def test_slip_the_proximal_term_alone_is_two_lambda_smooth() -> None:
    """Slip: Lemma 2 counts lambda for lambda / 2 |theta - theta'|^2; its joint Hessian has the eigenvalue 2 lambda."""
    constant_tasks = torch.zeros(2, dtype=DOUBLE)
    for prox in (0.1, 1.0, 7.0):
        found = joint_curvatures(1.0, prox, constant_tasks, (0.3, -2.0))
        torch.testing.assert_close(found, torch.tensor([0.0, 2 * prox], dtype=DOUBLE))


def test_slip_the_smooth_maximum_too_is_twice_as_curved_jointly() -> None:
    """Slip: phi_i(theta, theta') = psi(L_i(theta')) - psi(L_i(theta)) is sqrt(2) ell_i-Lipschitz jointly, not ell_i.

    So the constant of Lemma 2 is 2 ell^2 / tau + zeta + 2 lambda. Two tasks with psi(L_i) = +-theta attain it.
    """
    opposed = torch.tensor([1.0, -1.0], dtype=DOUBLE)
    for tau, prox in ((1.0, 0.0), (0.1, 0.0), (0.5, 2.0)):
        largest = joint_curvatures(tau, prox, opposed, (0.7, 0.7))[-1]
        torch.testing.assert_close(largest, torch.tensor(2 / tau + 2 * prox, dtype=DOUBLE))
        assert largest > 1 / tau + prox  # the printed constant, with zeta = 0


# --- Theorem 3: two-time-scale gradient descent-ascent ----------------------------------------------------------------

CENTRES = torch.tensor([-0.5, 0.5], dtype=DOUBLE)
TAU, PROX = 1.0, 1.0
LIPSCHITZ, SMOOTHNESS = 1.0, 2.0  # of ln(1 + (x - c)^2)
ELL = 2 * LIPSCHITZ**2 / TAU + SMOOTHNESS + 2 * PROX
KAPPA = ELL / (PROX - MODULUS)
STARTS = torch.tensor([1.2, -0.8, 3.0, -2.0], dtype=DOUBLE)
NEAR, FAR = slice(0, 2), slice(2, 4)
BOLD = 1 / (KAPPA**2 * ELL)
CAREFUL = 1 / (16 * (KAPPA + 1) ** 2 * ELL)
"""The outer rate for which Lin et al. prove the two inequalities of the appendix."""


def centred(x: Tensor) -> Tensor:
    """Return L_i = 1 + (x - c_i)^2: Pareto set [-1/2, 1/2], and 0 the one point with equal and opposite gradients."""
    return 1 + (x.unsqueeze(-1) - CENTRES).square()


def gradients(theta: Tensor, prime: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of h in theta and in theta' (eq:grad_2, eq:grad_1)."""
    of_theta, of_prime = merit.coefficients(centred(theta), centred(prime), tau=TAU)
    pull = PROX * (theta - prime)
    in_theta = -(of_theta * 2 * (theta.unsqueeze(-1) - CENTRES)).sum(-1) + pull
    in_prime = (of_prime * 2 * (prime.unsqueeze(-1) - CENTRES)).sum(-1) - pull
    return in_theta, in_prime


def inner_minimiser(theta: Tensor) -> Tensor:
    """Return theta*(theta) by bisection: h(theta, .) is strongly convex, so its derivative has one zero."""
    low, high = theta.clamp(max=0) - 1, theta.clamp(min=0) + 1  # the gradient of ln L points away from the centres
    for _ in range(48):
        middle = (low + high) / 2
        rising = gradients(theta, middle)[1] > 0
        low, high = torch.where(rising, low, middle), torch.where(rising, middle, high)
    return (low + high) / 2


class Descent(NamedTuple):
    """A run of Algorithm 1 from every start, `step x start`, and what the theorem speaks about at every step."""

    theta: Tensor
    v: Tensor
    slope: Tensor  # squared norm of the gradient of v
    lag: Tensor  # delta = |theta*(theta) - theta'|^2


@cache
def descent(rate: float, steps: int) -> Descent:
    theta, prime = STARTS, STARTS + torch.tensor([-1.0, 0.0, 0.5, 1.0], dtype=DOUBLE)
    thetas, primes = [theta], [prime]
    for _ in range(steps):
        up, down = gradients(theta, prime)
        theta, prime = theta + rate * up, prime - down / ELL
        thetas.append(theta)
        primes.append(prime)
    all_theta, all_prime = torch.stack(thetas), torch.stack(primes)
    best = inner_minimiser(all_theta)
    h = merit.h(centred(all_theta), centred(best), tau=TAU, prox=PROX, squared_distance=(all_theta - best).square())
    slope = gradients(all_theta, best)[0].square()  # Danskin: the gradient of v is minus this one
    return Descent(all_theta, -h, slope, (best - all_prime).square())


def test_theorem_3_descent_ascent_reaches_a_stationary_point_in_the_pareto_set() -> None:
    """Rates 1 / ell and 1 / (kappa^2 ell), lambda = 1 above the modulus 1/4."""
    run = descent(BOLD, 6000)
    smallest = run.slope[:, NEAR].cummin(0).values.sqrt()
    for earlier, later in ((0, 1500), (1500, 3000), (3000, 6000)):
        assert (smallest[later] < 0.5 * smallest[earlier]).all()
    assert (smallest[-1] < 2e-3).all()
    distance = (run.theta[:, NEAR].abs() - 0.5).clamp(min=0)
    assert (distance[0] > 0.2).all()
    assert (distance[10:].diff(dim=0) <= 0).all()  # once theta' has caught up with its minimiser
    assert (distance[-1] == 0).all()
    assert (run.theta[-1, NEAR].abs() < 0.01).all()  # the point with equal and opposite gradients
    assert (run.v[-1, NEAR] + TAU * math.log(2) < 1e-4).all()  # v has reached its lower bound


def test_theorem_3_says_stationary_and_not_optimal() -> None:
    """Far out ln L_i is concave and v falls to -tau ln m with the gradient of ln L_i: theta leaves, |grad v| vanishes.

    The theorem holds, but Proposition 3 (4) cannot turn its stationary points into optimal ones, as psi(L_i) is not
    convex there. The proximal term is what pushes: theta ascends lambda / 2 |theta - theta'|^2.
    """
    run = descent(BOLD, 6000)
    theta, v = run.theta[:, FAR].abs(), run.v[:, FAR]
    assert (theta[1000:].diff(dim=0) > 0).all()
    assert (theta[-1] > theta[0] + 1).all()
    assert (v[1000:].diff(dim=0) < 0).all()
    assert (run.slope[-1, FAR] < 0.7 * run.slope[0, FAR]).all()


def test_the_gradient_of_v_is_a_central_difference() -> None:
    """Danskin's theorem, for which Lemma 1 is needed."""
    theta, step = STARTS, 1e-5

    def v(x: Tensor) -> Tensor:
        best = inner_minimiser(x)
        return -merit.h(centred(x), centred(best), tau=TAU, prox=PROX, squared_distance=(x - best).square())

    found = -gradients(theta, inner_minimiser(theta))[0]
    torch.testing.assert_close(found, (v(theta + step) - v(theta - step)) / (2 * step), rtol=1e-6, atol=1e-9)


def test_the_two_inequalities_of_the_convergence_proof_hold_at_every_step() -> None:
    """Lemma 4.3 of Lin et al., eq:delta and eq:vdescent of the appendix."""
    run = descent(CAREFUL, 2000)
    contraction = 1 - 1 / (2 * KAPPA) + 4 * KAPPA**3 * ELL**2 * CAREFUL**2
    lag = contraction * run.lag[:-1] + 4 * KAPPA**3 * CAREFUL**2 * run.slope[:-1]
    assert (run.lag[1:] <= lag + ROUNDING).all()
    value = run.v[:-1] - 7 * CAREFUL / 16 * run.slope[:-1] + 9 * CAREFUL * ELL**2 / 16 * run.lag[:-1]
    assert (run.v[1:] <= value + ROUNDING).all()


@pytest.mark.parametrize("steps", [1, 10, 100, 1000, 2000])
def test_theorem_3_the_mean_squared_gradient_is_bounded_by_a_constant_over_the_steps(steps: int) -> None:
    """The proof with its constants: sum |grad v|^2 <= (Delta_v + 9/16 eta ell^2 delta^0 / (1 - gamma)) / c.

    Slips: the theorem prints (delta^0)^2 although delta^0 is a squared distance already, the proof has delta^0; and the
    sum from k = 0 has 1 / (1 - gamma) where the proof, summing from k = 1, has gamma / (1 - gamma).
    """
    run = descent(CAREFUL, 2000)
    gap = 1 / (2 * KAPPA) - 4 * KAPPA**3 * ELL**2 * CAREFUL**2  # 1 - gamma
    factor = 7 * CAREFUL / 16 - 9 * CAREFUL * ELL**2 / 16 * 4 * KAPPA**3 * CAREFUL**2 / gap
    start = run.v[0] + TAU * math.log(2)  # Delta_v: the minimum of v is -tau ln m, at theta = 0
    constant = (start + 9 * CAREFUL * ELL**2 / 16 * run.lag[0] / gap) / factor
    assert (run.slope[:steps].mean(0) <= constant / steps).all()


def test_theorem_3_the_sum_of_squared_gradients_converges() -> None:
    """A mean squared gradient of O(1 / K): K times the mean stays bounded, and after half of the steps has settled."""
    total = descent(BOLD, 6000).slope[:, NEAR].cumsum(0)
    torch.testing.assert_close(total[5999], total[2999], rtol=1e-2, atol=0.0)


def test_slip_the_largest_outer_rate_of_the_proof_proves_nothing() -> None:
    """Slip: at 4 kappa^3 ell^2 eta^2 = 7 / (32 kappa) the bounds of the proof leave the factor 7/16 - 7/16 = 0.

    The theorem stands, as eta = Theta(1 / (kappa^2 ell)) may be smaller; Lin et al. take 1 / (16 (kappa + 1)^2 ell).
    """
    largest = math.sqrt(7 / 128) / (KAPPA**2 * ELL)
    assert 4 * KAPPA**3 * ELL**2 * largest**2 == pytest.approx(7 / (32 * KAPPA))
    left = 7 / 16 - 9 * ELL**2 / 16 * (128 / 9) * KAPPA**4 * largest**2
    assert left == pytest.approx(0.0, abs=1e-12)
    assert 7 / 16 - 9 * ELL**2 / 16 * (128 / 9) * KAPPA**4 * CAREFUL**2 > 0.4
