"""Complex parameters are pairs of real ones; autocast and `no_grad` around a step reach the closure alone."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.methods import GRADIENTS, STEPPERS, GradientLevel, every_gradient_level
from helpers.support import TASKS, Data, flat, make_data, make_net, make_sims, mean_losses, parameters, sgd, task_losses
from torchsims import Aggregated, Stepper


class Waves(nn.Module):
    """A complex layer with its parameters as complex numbers or as pairs of real ones, and one head per task."""

    def __init__(self, real: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        weights = [torch.randn(size, dtype=torch.complex128) for size in ((5, 4), (4,), (4,), (4,))]
        self.real = real
        self.parts = nn.ParameterList([torch.view_as_real(w).clone() if real else w for w in weights])
        self.features: nn.Module = nn.Identity()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        stem, *heads = (torch.view_as_complex(p) if self.real else p for p in self.parts)
        z = self.features((x.to(stem.dtype) @ stem).tanh())
        return {task: (z * heads[i]).sum(1).abs() for i, task in enumerate(TASKS)}


def real_view(tensors: Any) -> Tensor:
    return flat(torch.view_as_real(t.detach()) if t.is_complex() else t for t in tensors)


def assert_complex_is_real(make: Callable[[nn.Module], Stepper[Any]], atol: float = 1e-11) -> None:
    ends = []
    for real in (False, True):
        model = Waves(real)
        method = make(model)
        for seed in range(2):
            data = make_data(seed=seed)
            report = method.backward(task_losses, *data.split([9, 7]))
            method.clip_grad_norm_(1.0)
            method.update()
        ends.append(torch.cat([real_view(model.parameters()), torch.tensor([*report.weights.values()])]))
    torch.testing.assert_close(*ends, rtol=0, atol=atol, equal_nan=True)


@every_gradient_level
def test_complex_parameters_are_pairs_of_real_ones(case: GradientLevel) -> None:
    assert_complex_is_real(lambda model: Aggregated(model, case.make(TASKS), outer=sgd()), 10 * case.tolerance)


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "LogMerit", "EW", "FAMO", "MGDA in chunks"])
def test_complex_parameters_of_other_methods_are_pairs_too(name: str) -> None:
    options = {"perturb": 0.05, "prox": 0.1} if "SIMS" in name else {}
    assert_complex_is_real(lambda model: STEPPERS[name](model, **options))


@pytest.mark.parametrize("name", ["MGDA", "UPGrad"])
def test_a_complex_representation_is_a_pair_too(name: str) -> None:
    options: dict[str, Any] = {"outer": sgd(), "shared": "representation", "features": "features"}
    ends = []
    for real in (False, True):
        model = Waves(real)
        if real:  # a representation of the real and the imaginary parts
            model.features = nn.Sequential(ToReal(), nn.Identity(), ToComplex())
            options["features"] = "features.1"
        Aggregated(model, GRADIENTS[name].make(TASKS), **options).step(mean_losses(), *[make_data(seed=1)] * 2)
        ends.append(real_view(model.parameters()))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-10)


class ToReal(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return torch.view_as_real(z)


class ToComplex(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return torch.view_as_complex(z.contiguous())


@every_gradient_level
def test_a_complex_jacobian_is_a_real_one_with_twice_the_columns(case: GradientLevel) -> None:
    jacobian = torch.randn(3, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    direction = case.make(TASKS)(jacobian.conj())
    expected = case.make(TASKS)(torch.view_as_real(jacobian.conj().resolve_conj()).flatten(1))
    assert torch.equal(torch.view_as_real(direction).flatten(), expected)


# Autocast, and gradients that are disabled.

EVERY: dict[str, Callable[[nn.Module], Stepper[Any]]] = {
    **STEPPERS,
    "MGDA at the representation": lambda model: Aggregated(
        model, GRADIENTS["MGDA"].make(TASKS), outer=sgd(), shared="representation", features="trunk"
    ),
}


def autocast() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16)


def gradients_of(
    make: Callable[[nn.Module], Stepper[Any]],
    around: Callable[[], AbstractContextManager[Any]],
    inside: Callable[[], AbstractContextManager[Any]],
    parts: list[int],
) -> Tensor:
    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        with inside():
            return mean_losses()(model, data)

    model = make_net(torch.float32)
    method = make(model)
    with around():
        for seed in range(2):
            method.step(closure, *make_data(dtype=torch.float32, seed=seed).split(parts))
    return parameters(model)


@pytest.mark.parametrize("parts", [[16], [9, 7]], ids=["one batch", "micro-batches"])
@pytest.mark.parametrize("name", EVERY)
def test_autocast_around_a_step_is_autocast_in_the_closure(name: str, parts: list[int]) -> None:
    around = gradients_of(EVERY[name], autocast, nullcontext, parts)
    inside = gradients_of(EVERY[name], nullcontext, autocast, parts)
    assert torch.equal(around, inside)


@pytest.mark.parametrize("parts", [[16], [9, 7]], ids=["one batch", "micro-batches"])
@pytest.mark.parametrize("name", EVERY)
def test_a_step_without_gradients_around_it_is_the_same(name: str, parts: list[int]) -> None:
    ends = [gradients_of(EVERY[name], around, nullcontext, parts) for around in (nullcontext, torch.no_grad)]
    assert torch.equal(*ends)


def test_stacked_losses_need_no_gradients_around_them() -> None:
    for chunk in (1, 2):
        ends = []
        for around in (nullcontext, torch.no_grad):
            model = make_net()
            method = Aggregated(model, GRADIENTS["MGDA"].make(TASKS), outer=sgd(), chunk=chunk)
            with around():
                method.step(
                    lambda model, x: torch.stack([out.square().mean() for out in model(x).values()]), make_data().x
                )
            ends.append(parameters(model))
        assert torch.equal(*ends)


@every_gradient_level
def test_a_direction_is_in_full_precision_inside_autocast(case: GradientLevel) -> None:
    jacobian = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    expected = case.make(TASKS)(jacobian)
    with autocast():
        assert torch.equal(case.make(TASKS)(jacobian), expected)


def test_a_closure_may_leave_autocast_and_the_step_returns_to_it() -> None:
    seen = []

    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        seen.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
        return mean_losses()(model, data)

    method = make_sims(make_net(torch.float32))
    with torch.autocast("cpu", torch.float16):
        method.step(closure, make_data(dtype=torch.float32))
        assert (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")) == (True, torch.float16)
    method.step(closure, make_data(dtype=torch.float32))
    assert seen[:3] == [(True, torch.float16)] * 3
    assert [enabled for enabled, _ in seen[3:]] == [False] * 3
