"""Every transform is what it says, and only the logarithm does not see the units (Theorem 2)."""

import math
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchsims import merit, transforms
from torchsims.transforms import Asinh, FlooredLog, Identity, Log, Power, Transform

LAW = settings(derandomize=True, deadline=None, max_examples=60)
DOUBLE = torch.float64

EXAMPLES: dict[str, list[Transform]] = {
    "Log": [Log(), Log(2.5)],
    "Identity": [Identity()],
    "Power": [Power(2.0), Power(0.5), Power(1.0)],
    "Asinh": [Asinh(0.1), Asinh(0.01)],
    "FlooredLog": [FlooredLog(0.1, 2.0), FlooredLog(3.0, 0.5)],
}
ALL = [pytest.param(psi, id=repr(psi)) for examples in EXAMPLES.values() for psi in examples]
UNIT_SENSITIVE = [
    pytest.param(psi, id=repr(psi)) for name, examples in EXAMPLES.items() if name != "Log" for psi in examples
]


def points(psi: Transform) -> Tensor:
    """Return increasing arguments over the domain of `psi`."""
    positive = torch.logspace(-3, 3, 61, dtype=DOUBLE)
    if psi.positive:
        return positive
    return torch.cat([-positive.flip(0), torch.zeros(1, dtype=DOUBLE), positive])


def test_every_transform_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(transforms.__all__) - {"Transform"}
    for name, examples in EXAMPLES.items():
        assert all(type(psi) is getattr(transforms, name) for psi in examples)


@pytest.mark.parametrize("psi", ALL)
def test_a_transform_is_strictly_increasing(psi: Transform) -> None:
    assert (psi(points(psi)).diff() > 0).all()
    assert (psi.slope(points(psi)) > 0).all()


@pytest.mark.parametrize("psi", ALL)
def test_the_slope_is_the_central_difference_and_the_derivative(psi: Transform) -> None:
    x = points(psi).requires_grad_()
    (derivative,) = torch.autograd.grad(psi(x).sum(), x)
    slope = psi.slope(x.detach())
    torch.testing.assert_close(slope, derivative, rtol=1e-12, atol=0.0)
    step = 1e-5 * x.detach().abs().clamp(min=1e-3)
    rise = psi(x.detach() + step) - psi(x.detach() - step)
    torch.testing.assert_close(slope, rise / (2 * step), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("psi", ALL)
def test_a_difference_is_the_difference_of_two_values(psi: Transform) -> None:
    x = points(psi)
    a, b = x.unsqueeze(0), x.unsqueeze(1)
    torch.testing.assert_close(psi.difference(a, b), psi(a) - psi(b), rtol=1e-12, atol=1e-12)
    assert (psi.difference(x, x) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("psi", ALL)
def test_a_difference_of_values_is_a_difference_to_the_bit(psi: Transform, dtype: torch.dtype) -> None:
    kind = torch.finfo(dtype)
    near = torch.tensor([0.3, 1.0, 7.5], dtype=dtype)
    edges = [kind.tiny, 1 / kind.tiny, kind.smallest_normal / 2, kind.max, 0.0, math.inf, math.nan, 1 + kind.eps]
    for far in (1.0, *edges):  # one loss decides for all
        losses = torch.cat([near, torch.tensor([far], dtype=dtype)])
        for a, b in ((losses, near.new_ones(4)), (3 * losses, near.new_full((4,), 3.0)), (losses, losses.flip(0))):
            found, expected = psi.difference_of_values(a, b), psi.difference(a, b)
            torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("psi", ALL)
def test_a_transform_keeps_the_dtype(psi: Transform) -> None:
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor([0.5, 2.0], dtype=dtype)
        assert {psi(x).dtype, psi.slope(x).dtype, psi.difference(x, x.flip(0)).dtype} == {dtype}


@pytest.mark.parametrize("psi", ALL)
def test_the_repr_of_a_transform_builds_it(psi: Transform) -> None:
    again = eval(repr(psi), vars(transforms))
    assert type(again) is type(psi)
    assert torch.equal(again(torch.tensor([0.3, 3.0])), psi(torch.tensor([0.3, 3.0])))


@pytest.mark.parametrize("value", [0, -1, -0.5, math.nan])
@pytest.mark.parametrize(("kind", "name"), [(Log, "a"), (Power, "a"), (Asinh, "c")])
def test_a_parameter_that_is_not_positive_is_refused(
    kind: type[Log] | type[Power] | type[Asinh], name: str, value: float
) -> None:
    with pytest.raises(ValueError, match=rf"Parameter `{name}` should be positive\. Found `{name} = {value}`\."):
        kind(value)


@pytest.mark.parametrize("ratio", [1e-60, 1e-40, 1e-37, 1.0, 1e37, 1e40, 1e60])
def test_log_differences_are_finite_for_any_two_finite_losses(ratio: float) -> None:
    """Beyond the range of single precision the difference is one of logarithms, and its gradient stays 1 / L."""
    losses = torch.tensor([math.sqrt(ratio)], requires_grad=True)
    reference = torch.tensor([1 / math.sqrt(ratio)])
    d = Log().difference(losses, reference)
    torch.testing.assert_close(d, torch.tensor([math.log(ratio)]), rtol=1e-6, atol=1e-6)
    (gradient,) = torch.autograd.grad(d.sum(), losses)
    torch.testing.assert_close(gradient, 1 / losses.detach(), rtol=1e-5, atol=0.0)


# --- Theorem 2: u is invariant to the scaling of every loss if and only if psi(x) = a ln x + b ------------------------

losses_of_two = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=2)
scales_of_two = st.lists(st.floats(-6.0, 6.0).map(lambda x: 10.0**x), min_size=2, max_size=2)


class Affine(Transform):
    """`a ln x + b`, with the constant that :class:`Log` leaves out."""

    positive: ClassVar[bool] = True

    def __init__(self, a: float, b: float) -> None:
        self.a, self.b = a, b

    def __call__(self, losses: Tensor) -> Tensor:
        return self.a * losses.log() + self.b

    def slope(self, losses: Tensor) -> Tensor:
        return self.a / losses


@LAW
@given(
    first=losses_of_two,
    second=losses_of_two,
    challenger=losses_of_two,
    scales=scales_of_two,
    a=st.floats(0.1, 10.0),
    b=st.floats(-5.0, 5.0),
)
def test_with_a_ln_x_plus_b_no_unit_changes_a_merit_a_weight_or_an_order(
    first: list[float], second: list[float], challenger: list[float], scales: list[float], a: float, b: float
) -> None:
    """Theorem 2, sufficiency: a scales the merit, b cancels, and neither depends on the units of the losses."""
    x, y, z, c = (torch.tensor(values, dtype=DOUBLE) for values in (first, second, challenger, scales))
    for psi in (Log(a), Affine(a, b)):
        for point in (x, y):
            before = merit.u(point, z.unsqueeze(0), transform=psi)
            after = merit.u(c * point, (c * z).unsqueeze(0), transform=psi)
            torch.testing.assert_close(after, before, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(
            merit.weights(c * x, c * z, tau=1.0, transform=psi),
            merit.weights(x, z, tau=1.0, transform=psi),
            rtol=1e-10,
            atol=1e-14,
        )
    torch.testing.assert_close(
        merit.u(x, z.unsqueeze(0), transform=Affine(a, b)), a * merit.u(x, z.unsqueeze(0)), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("psi", ALL)
def test_only_the_logarithm_solves_the_functional_equation_of_the_proof(psi: Transform) -> None:
    """Theorem 2, the step to Cauchy's equation: psi(c x) - psi(c y) = psi(x) - psi(y) for all c, x, y > 0."""
    x = torch.logspace(-2, 2, 9, dtype=DOUBLE)
    a, b = x.unsqueeze(0), x.unsqueeze(1)
    for c in (1e-3, 0.5, 40.0):
        same = torch.allclose(psi.difference(c * a, c * b), psi.difference(a, b), rtol=1e-9, atol=1e-9)
        assert same == isinstance(psi, Log)


@pytest.mark.parametrize("psi", UNIT_SENSITIVE)
def test_any_other_transform_lets_a_unit_reverse_the_order_of_two_solutions(psi: Transform) -> None:
    """Theorem 2, necessity, on one pair: the first task in metres, then in kilometres, with (1, 1) the challenger."""
    x, y = torch.tensor([2.0, 3.0], dtype=DOUBLE), torch.tensor([3.0, 1.5], dtype=DOUBLE)
    challengers = torch.ones(1, 2, dtype=DOUBLE)
    kilometres = torch.tensor([1e-3, 1.0], dtype=DOUBLE)

    def prefers_y(scale: Tensor, transform: Transform) -> bool:
        of_x = merit.u(scale * x, scale * challengers, transform=transform)
        of_y = merit.u(scale * y, scale * challengers, transform=transform)
        return bool(of_y < of_x)

    metres = torch.ones(2, dtype=DOUBLE)
    assert prefers_y(metres, psi)
    assert not prefers_y(kilometres, psi)
    assert prefers_y(metres, Log())
    assert prefers_y(kilometres, Log())


@pytest.mark.parametrize("psi", UNIT_SENSITIVE)
def test_any_other_transform_lets_a_unit_decide_which_task_weighs_most(psi: Transform) -> None:
    losses, challenger = torch.ones(2, dtype=DOUBLE), torch.tensor([0.5, 0.9], dtype=DOUBLE)
    kilometres = torch.tensor([1e-3, 1.0], dtype=DOUBLE)

    def heaviest(scale: Tensor, transform: Transform) -> int:
        return int(merit.weights(scale * losses, scale * challenger, tau=0.1, transform=transform).argmax())

    metres = torch.ones(2, dtype=DOUBLE)
    assert (heaviest(metres, psi), heaviest(kilometres, psi)) == (1, 0)
    assert (heaviest(metres, Log()), heaviest(kilometres, Log())) == (1, 1)
