"""The merit functions against a slow twin written from the paper's equations, and the laws they promise."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchsims import merit
from torchsims.transforms import Asinh, Identity, Log, Power, Transform

LAW = settings(derandomize=True, deadline=None, max_examples=60)

DOUBLE = torch.float64

Options: TypeAlias = dict[str, Any]
"""Keyword arguments of several calls that should get the same."""


class Psi(NamedTuple):
    """A transform beside the same function of one number."""

    transform: Transform
    value: Callable[[float], float]
    slope: Callable[[float], float]


TRANSFORMS = [
    pytest.param(Psi(Log(), math.log, lambda x: 1 / x), id="log"),
    pytest.param(Psi(Log(2.5), lambda x: 2.5 * math.log(x), lambda x: 2.5 / x), id="log-2.5"),
    pytest.param(Psi(Identity(), lambda x: x, lambda x: 1.0), id="identity"),
    pytest.param(Psi(Power(2.0), lambda x: x * x, lambda x: 2 * x), id="square"),
    pytest.param(Psi(Power(0.5), math.sqrt, lambda x: 0.5 / math.sqrt(x)), id="root"),
    pytest.param(Psi(Asinh(0.1), lambda x: math.asinh(x / 0.1), lambda x: 1 / math.sqrt(x * x + 0.01)), id="asinh"),
]


class Setting(NamedTuple):
    """One choice of everything `h` can be told."""

    tau: float = 1.0
    augment: float = 0.0
    labelled: tuple[bool, ...] | None = None

    def tensors(self) -> Options:
        return {"labelled": None if self.labelled is None else torch.tensor(self.labelled)}


SETTINGS = [
    pytest.param(Setting(), id="paper"),
    pytest.param(Setting(tau=0.05), id="cold"),
    pytest.param(Setting(tau=30.0), id="hot"),
    pytest.param(Setting(augment=0.3), id="augmented"),
    pytest.param(Setting(labelled=(True, False, True, True)), id="masked"),
    pytest.param(Setting(0.4, 1.7, (False, True, True, True)), id="everything"),
    pytest.param(Setting(0.4, 1.7, (False, False, True, False)), id="one-labelled"),
]


class Twin(NamedTuple):
    """What the paper's equations give for one pair of points."""

    h: float
    weights: list[float]
    of_theta: list[float]
    of_challenger: list[float]


def twin(losses: Sequence[float], challenger: Sequence[float], psi: Psi, setting: Setting) -> Twin:
    """Return `h`, the weights and the two gradients of `h` (descent signs), term by term and unshifted."""
    tau, rho, labelled = setting
    tasks = [i for i in range(len(losses)) if labelled is None or labelled[i]]
    d = {i: psi.value(challenger[i]) - psi.value(losses[i]) for i in tasks}
    e = {i: math.exp(d[i] / tau) for i in tasks}
    floor = 1 + len(tasks) * rho
    h = (tau * math.log(sum(e.values())) + rho * sum(d.values())) / floor
    w = [(e[i] / sum(e.values()) + rho) / floor if i in e else 0.0 for i in range(len(losses))]
    return Twin(
        h,
        w,
        [w_i * psi.slope(x) for w_i, x in zip(w, losses, strict=True)],
        [w_i * psi.slope(x) for w_i, x in zip(w, challenger, strict=True)],
    )


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Return losses between 0.5 and 2."""
    return 0.5 + 1.5 * torch.rand(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def rows(*batched: Tensor) -> Iterator[tuple[list[float], ...]]:
    """Yield the last dimension of every tensor for each leading index."""
    for index in product(*(range(size) for size in batched[0].shape[:-1])):
        yield tuple(tensor[index].tolist() for tensor in batched)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("psi", TRANSFORMS)
def test_h_weights_and_coefficients_equal_the_twin_over_leading_dimensions(psi: Psi, setting: Setting) -> None:
    losses, challenger = draw(2, 3, 4), draw(2, 3, 4, seed=1)
    tau, augment, options = setting.tau, setting.augment, setting.tensors()
    h = merit.h(losses, challenger, tau=tau, augment=augment, transform=psi.transform, **options)
    w = merit.weights(losses, challenger, tau=tau, augment=augment, transform=psi.transform, **options)
    theta, prime = merit.coefficients(losses, challenger, tau=tau, augment=augment, transform=psi.transform, **options)
    twins = [twin(a, b, psi, setting) for a, b in rows(losses, challenger)]
    assert h.shape == (2, 3)
    torch.testing.assert_close(h.flatten(), torch.tensor([t.h for t in twins], dtype=DOUBLE))
    for found, expected in (
        (w, [t.weights for t in twins]),
        (theta, [t.of_theta for t in twins]),
        (prime, [t.of_challenger for t in twins]),
    ):
        torch.testing.assert_close(found.reshape(6, 4), torch.tensor(expected, dtype=DOUBLE), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("setting", SETTINGS)
def test_smooth_max_equals_the_twin_of_identity(setting: Setting) -> None:
    values = draw(5, 4) - 1.2
    found = merit.smooth_max(values, tau=setting.tau, augment=setting.augment, **setting.tensors())
    identity = Psi(Identity(), lambda x: x, lambda x: 1.0)
    expected = [twin([0.0] * 4, row, identity, setting).h for (row,) in rows(values)]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=DOUBLE), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("psi", TRANSFORMS)
def test_coefficients_are_central_differences_and_autograd_of_h(psi: Psi, setting: Setting) -> None:
    losses, challenger = draw(4).requires_grad_(), draw(4, seed=1).requires_grad_()
    tau, augment, options = setting.tau, setting.augment, setting.tensors()

    def h(a: Tensor, b: Tensor) -> Tensor:
        return merit.h(a, b, tau=tau, augment=augment, transform=psi.transform, **options)

    theta, prime = merit.coefficients(
        losses.detach(), challenger.detach(), tau=tau, augment=augment, transform=psi.transform, **options
    )
    by_theta, by_prime = torch.autograd.grad(h(losses, challenger), [losses, challenger])
    torch.testing.assert_close(-by_theta, theta, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(by_prime, prime, rtol=1e-12, atol=1e-15)

    step = 1e-5 * torch.eye(4, dtype=DOUBLE)  # one row a task: the leading dimension holds the differences
    a, b = losses.detach(), challenger.detach()
    torch.testing.assert_close((h(a - step, b) - h(a + step, b)) / 2e-5, theta, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close((h(a, b + step) - h(a, b - step)) / 2e-5, prime, rtol=1e-6, atol=1e-8)


def test_weights_are_the_derivative_of_smooth_max() -> None:
    losses, challenger = draw(3, 4), draw(3, 4, seed=1)
    d = (challenger / losses).log().requires_grad_()
    (gradient,) = torch.autograd.grad(merit.smooth_max(d, tau=0.3, augment=0.2).sum(), d)
    torch.testing.assert_close(gradient, merit.weights(losses, challenger, tau=0.3, augment=0.2))


@pytest.mark.parametrize("psi", TRANSFORMS)
def test_settings_may_be_tensors_over_the_runs(psi: Psi) -> None:
    losses, challenger = draw(3, 4), draw(3, 4, seed=1)
    taus, augments, proxes = (
        torch.tensor(x, dtype=DOUBLE) for x in ([0.1, 1.0, 9.0], [0.0, 0.2, 3.0], [0.0, 1.0, 2.0])
    )
    distance = draw(3, seed=2)
    together: Options = {"tau": taus, "augment": augments}
    h = merit.h(
        losses, challenger, transform=psi.transform, prox=proxes, squared_distance=distance, **together
    )  # (run,)
    w = merit.weights(losses, challenger, transform=psi.transform, **together)
    c = merit.coefficients(losses, challenger, transform=psi.transform, **together)
    for run in range(3):
        alone: Options = {"tau": float(taus[run]), "augment": float(augments[run])}
        pair = losses[run], challenger[run]
        torch.testing.assert_close(
            h[run],
            merit.h(
                *pair,
                transform=psi.transform,
                prox=float(proxes[run]),
                squared_distance=float(distance[run]),
                **alone,
            ),
        )
        torch.testing.assert_close(w[run], merit.weights(*pair, transform=psi.transform, **alone))
        for of_all, of_one in zip(c, merit.coefficients(*pair, transform=psi.transform, **alone), strict=True):
            torch.testing.assert_close(of_all[run], of_one)


@pytest.mark.parametrize("runs", [2, 5])  # as many runs as challengers must not be confused with the challengers
def test_settings_of_u_and_v_may_be_tensors_over_the_runs(runs: int) -> None:
    losses, challengers, distances = draw(runs, 3), draw(runs, 5, 3, seed=1), draw(runs, 5, seed=2)
    taus, augments, proxes = draw(runs, seed=3), draw(runs, seed=4), draw(runs, seed=5)
    u = merit.u(losses, challengers, prox=proxes, squared_distances=distances)
    v = merit.v(losses, challengers, tau=taus, augment=augments, prox=proxes, squared_distances=distances)
    for run in range(runs):
        prox: Options = {"prox": float(proxes[run]), "squared_distances": distances[run]}
        torch.testing.assert_close(u[run], merit.u(losses[run], challengers[run], **prox))
        tau, augment = float(taus[run]), float(augments[run])
        torch.testing.assert_close(v[run], merit.v(losses[run], challengers[run], tau=tau, augment=augment, **prox))


@pytest.mark.parametrize("psi", TRANSFORMS)
def test_u_and_v_equal_loops_over_the_challengers(psi: Psi) -> None:
    losses, challengers, distances = draw(3), draw(6, 3, seed=1), draw(6, seed=2)
    x, candidates = losses.tolist(), challengers.tolist()
    prox: Options = {"prox": 0.3, "squared_distances": distances}
    gains = [
        min(psi.value(a) - psi.value(b) for a, b in zip(x, y, strict=True)) - 0.15 * r
        for y, r in zip(candidates, distances.tolist(), strict=True)
    ]
    u = merit.u(losses, challengers, transform=psi.transform, **prox)
    torch.testing.assert_close(u, torch.tensor(max(gains), dtype=DOUBLE))
    saddles = [
        twin(x, y, psi, Setting(tau=0.7)).h + 0.15 * r for y, r in zip(candidates, distances.tolist(), strict=True)
    ]
    v = merit.v(losses, challengers, tau=0.7, transform=psi.transform, **prox)
    torch.testing.assert_close(v, torch.tensor(-min(saddles), dtype=DOUBLE))


def test_u_of_a_point_that_nothing_beats_is_zero_without_a_sign() -> None:
    losses = draw(3)
    assert str(merit.u(losses, losses.unsqueeze(0)).item()) == "0.0"


def test_the_proximal_term_is_half_prox_times_the_squared_distance() -> None:
    losses, challenger, distance = draw(3, 4), draw(3, 4, seed=1), draw(3, seed=2)
    plain = merit.h(losses, challenger, tau=1.0, augment=0.5)
    found = merit.h(losses, challenger, tau=1.0, augment=0.5, prox=0.6, squared_distance=distance)
    torch.testing.assert_close(found - plain, 0.3 * distance)  # not divided by 1 + m rho


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("psi", TRANSFORMS)
def test_weights_are_on_the_simplex_and_above_their_floor(psi: Psi, setting: Setting) -> None:
    w = merit.weights(
        draw(50, 4),
        draw(50, 4, seed=1),
        tau=setting.tau,
        augment=setting.augment,
        transform=psi.transform,
        **setting.tensors(),
    )
    torch.testing.assert_close(w.sum(-1), torch.ones(50, dtype=DOUBLE))
    labelled = torch.tensor(setting.labelled or (True,) * 4)
    m = int(labelled.sum())
    floor = setting.augment / (1 + m * setting.augment)
    assert (w[:, labelled] >= floor * (1 - 1e-12)).all()
    assert (w[:, ~labelled] == 0).all()


def test_weights_are_large_where_the_challenger_gains_least() -> None:
    losses, challenger = draw(20, 4), draw(20, 4, seed=1)
    w = merit.weights(losses, challenger, tau=0.5)
    assert torch.equal(w.argsort(-1), (challenger / losses).argsort(-1))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_permutation_of_the_tasks_permutes_everything(setting: Setting) -> None:
    losses, challenger, order = draw(6, 4), draw(6, 4, seed=1), [2, 0, 3, 1]
    options = setting.tensors()
    permuted: Options = {name: None if value is None else value[order] for name, value in options.items()}
    numbers: Options = {"tau": setting.tau, "augment": setting.augment}
    a, b = losses[:, order], challenger[:, order]
    torch.testing.assert_close(
        merit.h(a, b, **numbers, **permuted), merit.h(losses, challenger, **numbers, **options), rtol=1e-12, atol=1e-14
    )
    torch.testing.assert_close(
        merit.weights(a, b, **numbers, **permuted), merit.weights(losses, challenger, **numbers, **options)[:, order]
    )
    for found, expected in zip(
        merit.coefficients(a, b, **numbers, **permuted),
        merit.coefficients(losses, challenger, **numbers, **options),
        strict=True,
    ):
        torch.testing.assert_close(found, expected[:, order])


@pytest.mark.parametrize("psi", TRANSFORMS)
@pytest.mark.parametrize("m", [1, 2, 7])
def test_h_is_tau_ln_m_where_the_two_points_agree(psi: Psi, m: int) -> None:
    losses = draw(4, m)
    found = merit.h(losses, losses, tau=0.7, transform=psi.transform)
    torch.testing.assert_close(found, torch.full((4,), 0.7 * math.log(m), dtype=DOUBLE))
    uniform = merit.weights(losses, losses, tau=0.7, transform=psi.transform)
    torch.testing.assert_close(uniform, torch.full((4, m), 1 / m, dtype=DOUBLE))


# --- The scale law ----------------------------------------------------------------------------------------------------

singles = st.lists(st.floats(2.0**-10, 2.0**10, width=32), min_size=4, max_size=4)
powers = st.lists(st.integers(-40, 40), min_size=4, max_size=4)
constants = st.lists(st.floats(-6.0, 6.0).map(lambda x: 10.0**x), min_size=4, max_size=4)
temperatures = st.sampled_from([0.05, 1.0, 5.0])
augments = st.sampled_from([0.0, 0.3])


@LAW
@given(a=singles, b=singles, power=powers, tau=temperatures, augment=augments, a_log=st.sampled_from([1.0, 2.5]))
def test_a_power_of_two_changes_no_bit_in_single_precision(
    a: list[float], b: list[float], power: list[int], tau: float, augment: float, a_log: float
) -> None:
    losses, challenger = torch.tensor(a), torch.tensor(b)
    scale = torch.tensor([2.0**n for n in power])
    options: Options = {"labelled": torch.tensor([True, True, False, True])}
    log = Log(a_log)

    def everything(x: Tensor, y: Tensor) -> list[Tensor]:
        h = merit.h(x, y, tau=tau, augment=augment, transform=log, **options)
        w = merit.weights(x, y, tau=tau, augment=augment, transform=log, **options)
        theta, prime = merit.coefficients(x, y, tau=tau, augment=augment, transform=log, **options)
        u = merit.u(x, torch.stack([x, y]), transform=log)
        # A coefficient below the normal numbers has lost bits that no unit can give back.
        theta, prime = (c.where(c > 1e-20, 0) for c in (theta * x, prime * y))
        return [h, w, theta, prime, u]

    for before, after in zip(
        everything(losses, challenger), everything(losses * scale, challenger * scale), strict=True
    ):
        assert torch.equal(before, after)


@LAW
@given(a=singles, b=singles, scales=constants, tau=temperatures, augment=augments)
def test_a_constant_changes_only_rounding(
    a: list[float], b: list[float], scales: list[float], tau: float, augment: float
) -> None:
    losses, challenger, scale = (torch.tensor(x, dtype=DOUBLE) for x in (a, b, scales))
    rescaled = losses * scale, challenger * scale
    # d carries an absolute error of a few units in the last place of 1, and the weights feel d / tau.
    tolerance = 16 * torch.finfo(DOUBLE).eps
    torch.testing.assert_close(
        merit.h(*rescaled, tau=tau, augment=augment),
        merit.h(losses, challenger, tau=tau, augment=augment),
        rtol=tolerance,
        atol=tolerance,
    )
    torch.testing.assert_close(
        merit.weights(*rescaled, tau=tau, augment=augment),
        merit.weights(losses, challenger, tau=tau, augment=augment),
        rtol=tolerance / tau * 4,
        atol=0.0,
    )
    for after, before in zip(
        merit.coefficients(*rescaled, tau=tau, augment=augment),
        merit.coefficients(losses, challenger, tau=tau, augment=augment),
        strict=True,
    ):
        torch.testing.assert_close(after * scale, before, rtol=tolerance / tau * 4, atol=0.0)


def test_a_small_difference_keeps_its_digits_at_any_scale() -> None:
    """The ratio comes before the logarithm: ln(1e30 (1 + 1e-6)) - ln(1e30) would have no digit left in float32."""
    gain = torch.tensor([1 + 2**-20, 1.0])
    for exponent in (-90, 0, 90):
        losses = torch.tensor([2.0**exponent, 1.0])
        d = Log().difference(losses * gain, losses)
        torch.testing.assert_close(d[0], torch.tensor(math.log1p(2**-20)), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("augment", [0.0, 0.3])
def test_extreme_scales_stay_finite_in_single_precision(augment: float) -> None:
    """Units of 1e-30 beside units of 1e30, and even a challenger that differs by as much."""
    extremes = torch.tensor(list(product([1e-30, 1.0, 1e30], repeat=4)))
    losses, challenger = extremes[:, :2], extremes[:, 2:].clone().requires_grad_()
    h = merit.h(losses, challenger, tau=0.1, augment=augment)
    w = merit.weights(losses, challenger, tau=0.1, augment=augment)
    theta, prime = merit.coefficients(losses, challenger, tau=0.1, augment=augment)
    (gradient,) = torch.autograd.grad(h.sum(), challenger)
    for found in (h, w, theta, prime, gradient):
        assert found.isfinite().all()
    torch.testing.assert_close(gradient, prime.detach(), rtol=1e-4, atol=0.0)  # d / tau is above 1000
    torch.testing.assert_close(w.sum(-1), torch.ones(81))
    precise = merit.h(losses.double(), challenger.double(), tau=0.1, augment=augment)
    torch.testing.assert_close(h.double(), precise, rtol=1e-6, atol=1e-5)


# --- Partial labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("psi", TRANSFORMS)
@pytest.mark.parametrize("augment", [0.0, 0.3])
def test_a_masked_task_is_an_absent_task(psi: Psi, augment: float) -> None:
    losses, challenger, kept = draw(5, 4), draw(5, 4, seed=1), [0, 2, 3]
    labelled = torch.tensor([True, False, True, True])
    options: Options = {"tau": 0.7, "augment": augment}
    masked = losses, challenger
    alone = losses[:, kept], challenger[:, kept]
    torch.testing.assert_close(
        merit.h(*masked, transform=psi.transform, labelled=labelled, **options),
        merit.h(*alone, transform=psi.transform, **options),
    )
    w = merit.weights(*masked, transform=psi.transform, labelled=labelled, **options)
    torch.testing.assert_close(w[:, kept], merit.weights(*alone, transform=psi.transform, **options))
    assert (w[:, 1] == 0).all()
    for found, expected in zip(
        merit.coefficients(*masked, transform=psi.transform, labelled=labelled, **options),
        merit.coefficients(*alone, transform=psi.transform, **options),
        strict=True,
    ):
        torch.testing.assert_close(found[:, kept], expected)
        assert (found[:, 1] == 0).all()


@pytest.mark.parametrize("placeholder", [1e-12, 1.0, 1e12])
def test_the_placeholder_of_a_masked_task_changes_no_bit(placeholder: float) -> None:
    losses, challenger = draw(5, 4), draw(5, 4, seed=1)
    labelled = torch.tensor([True, False, True, True])
    replaced = losses.clone()
    replaced[:, 1] = placeholder
    for augment in (0.0, 0.3):
        options: Options = {"tau": 0.7, "augment": augment}
        assert torch.equal(
            merit.h(replaced, challenger, labelled=labelled, **options),
            merit.h(losses, challenger, labelled=labelled, **options),
        )
        assert torch.equal(
            merit.weights(replaced, challenger, labelled=labelled, **options),
            merit.weights(losses, challenger, labelled=labelled, **options),
        )


def test_every_row_may_have_its_own_labels() -> None:
    losses, challenger = draw(3, 4), draw(3, 4, seed=1)
    labelled = torch.tensor([[True, True, False, True], [True, True, True, True], [False, False, True, False]])
    rho = torch.tensor([0.1, 0.2, 0.3], dtype=DOUBLE)
    h = merit.h(losses, challenger, tau=0.7, augment=rho, labelled=labelled)
    w = merit.weights(losses, challenger, tau=0.7, augment=rho, labelled=labelled)
    for row in range(3):
        kept = labelled[row]
        pair = losses[row, kept], challenger[row, kept]
        torch.testing.assert_close(h[row], merit.h(*pair, tau=0.7, augment=float(rho[row])))
        torch.testing.assert_close(w[row, kept], merit.weights(*pair, tau=0.7, augment=float(rho[row])))


def test_without_any_label_every_weight_is_zero() -> None:
    losses, challenger = draw(4), draw(4, seed=1)
    for augment in (0.0, 0.3):
        w = merit.weights(losses, challenger, tau=1.0, augment=augment, labelled=torch.zeros(4, dtype=torch.bool))
        assert (w == 0).all()


# --- p_max, Chebyshev, settings ---------------------------------------------------------------------------------------


def test_p_max_and_chebyshev_equal_numpy() -> None:
    losses, ideal, w = draw(2, 3, 4), 0.5 * draw(4, seed=1), draw(4, seed=2)
    gap = losses.numpy() - ideal.numpy()
    np.testing.assert_array_equal(merit.p_max(losses, ideal).numpy(), gap.max(-1))
    np.testing.assert_array_equal(merit.chebyshev(losses, w, ideal).numpy(), (w.numpy() * gap).max(-1))
    np.testing.assert_array_equal(merit.p_max(losses).numpy(), losses.numpy().max(-1))


@pytest.mark.parametrize("tau", [0, 0.0, -1, -0.5, math.nan])
def test_a_temperature_that_is_not_positive_is_refused(tau: float) -> None:
    losses = draw(3)
    sentence = rf"Parameter `tau` should be positive\. Found `tau = {tau}`\."
    for call in (merit.h, merit.weights, merit.coefficients):
        with pytest.raises(ValueError, match=sentence):
            call(losses, losses, tau=tau)
    with pytest.raises(ValueError, match=sentence):
        merit.smooth_max(losses, tau=tau)
    with pytest.raises(ValueError, match=sentence):
        merit.v(losses, losses.expand(2, 3), tau=tau)


@pytest.mark.parametrize("augment", [-1, -0.5, math.nan])
def test_a_negative_augmentation_is_refused(augment: float) -> None:
    losses = draw(3)
    sentence = rf"Parameter `augment` should not be negative\. Found `augment = {augment}`\."
    for call in (merit.h, merit.weights, merit.coefficients):
        with pytest.raises(ValueError, match=sentence):
            call(losses, losses, tau=1.0, augment=augment)
    with pytest.raises(ValueError, match=sentence):
        merit.smooth_max(losses, tau=1.0, augment=augment)
    with pytest.raises(ValueError, match=sentence):
        merit.v(losses, losses.expand(2, 3), tau=1.0, augment=augment)
