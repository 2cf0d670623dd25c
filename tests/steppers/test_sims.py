"""SIMS does what Algorithm 1 says, in every way it can be run."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.lr_scheduler import StepLR

from helpers.methods import SCALARIZED
from helpers.support import (
    TASKS,
    Data,
    drops_gradients,
    equal_copies,
    flat,
    gradients,
    make_data,
    make_net,
    make_sims,
    mean_losses,
    parameters,
    sgd,
    task_losses,
)
from torchsims import FOOPS, SIMS, TaskLosses, normalizers, transforms

EVALUATIONS = ["sequential", "joint"]
ORDERS = ["simultaneous", "alternating"]


def paper_h(losses: list[Tensor], rivals: list[Tensor], tau: float, psi: Callable[[Tensor], Tensor]) -> Tensor:
    """Return h without the proximal term, straight from the paper and without any care for large numbers."""
    terms = [((psi(b) - psi(a)) / tau).exp() for a, b in zip(losses, rivals, strict=True)]
    return tau * torch.stack(terms).sum().log()


class NaiveTwin:
    """Algorithm 1 with two modules, autograd on h as it is printed, and gradient steps by hand."""

    def __init__(self, model: nn.Module, tau: float, prox: float, rates: tuple[float, float], order: str) -> None:
        self.model, self.challenger = model, deepcopy(model)
        self.tau, self.prox, self.rates, self.order = tau, prox, rates, order

    def h(self, data: Data, psi: Callable[[Tensor], Tensor]) -> Tensor:
        losses, rivals = (list(mean_losses()(module, data).values()) for module in (self.model, self.challenger))
        pairs = zip(self.model.parameters(), self.challenger.parameters(), strict=True)
        distance = torch.stack([(p - q).square().sum() for p, q in pairs]).sum()
        return paper_h(losses, rivals, self.tau, psi) + self.prox / 2 * distance

    def step(self, data: Data, psi: Callable[[Tensor], Tensor] = torch.log) -> float:
        theta, rival = list(self.model.parameters()), list(self.challenger.parameters())
        value = self.h(data, psi)
        both = torch.autograd.grad(value, theta + rival)
        with torch.no_grad():
            for q, g in zip(rival, both[len(theta) :], strict=True):
                q.sub_(self.rates[1] * g)
        if self.order == "alternating":
            value = self.h(data, psi)
            both = torch.autograd.grad(value, theta)
        with torch.no_grad():
            for p, g in zip(theta, both[: len(theta)], strict=True):
                p.add_(self.rates[0] * g)
        return value.item()


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("prox", [0.0, 0.1])
@pytest.mark.parametrize("psi", [transforms.Log(), transforms.Identity(), transforms.Power(0.5), transforms.Asinh(0.1)])
def test_twenty_steps_equal_those_of_the_paper_written_naively(
    evaluation: Any, order: Any, prox: float, psi: transforms.Transform
) -> None:
    model, data = make_net(), make_data()
    twin = NaiveTwin(make_net(), 0.5, prox, (0.02, 0.1), order)
    method = make_sims(model, prox=prox, order=order, evaluation=evaluation, transform=psi)
    for _ in range(20):
        merit = method.step(mean_losses(), data).merit
        assert merit == pytest.approx(twin.step(data, psi), abs=1e-12)
    torch.testing.assert_close(parameters(model), parameters(twin.model), rtol=0, atol=1e-12)
    with method.challenger():
        torch.testing.assert_close(parameters(model), parameters(twin.challenger), rtol=0, atol=1e-12)


def test_foops_is_the_same_saddle_of_the_losses_themselves() -> None:
    model, data = make_net(), make_data()
    twin = NaiveTwin(make_net(), 0.5, 0.0, (0.02, 0.1), "simultaneous")
    method = FOOPS(model, tau=0.5, outer=sgd(0.02), inner=sgd(0.1))
    for _ in range(10):
        method.step(mean_losses(), data)
        twin.step(data, lambda x: x)
    torch.testing.assert_close(parameters(model), parameters(twin.model), rtol=0, atol=1e-12)


@drops_gradients
def test_gradients_are_central_differences_of_h() -> None:
    model, data = make_net(), make_data()
    method = make_sims(model, prox=0.3, augment=0.2, perturb=0.05)
    method.backward(mean_losses(), data)
    theta = list(model.parameters())
    gradient, rival_gradient = gradients(model), flat(p.grad for p in method._challenger.parameters)

    def h_at(tensor: Tensor, index: int, step: float) -> float:
        with torch.no_grad():
            tensor.view(-1)[index] += step
        value = method.backward(mean_losses(), data).merit
        with torch.no_grad():
            tensor.view(-1)[index] -= step
        return value

    for tensors, expected in ((theta, -gradient), (method._challenger.parameters, rival_gradient)):
        sizes = [t.numel() for t in tensors]
        for which in (0, 2, len(tensors) - 1):
            slope = (h_at(tensors[which], 0, 1e-6) - h_at(tensors[which], 0, -1e-6)) / 2e-6
            assert slope == pytest.approx(float(expected[sum(sizes[:which])]), abs=1e-7)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_joint_equals_sequential(order: Any, micro_batches: int) -> None:
    ends = []
    for evaluation in EVALUATIONS:
        model = make_net(dropout=0.3, batch_norm=True)
        method = make_sims(model, evaluation=evaluation, order=order, prox=0.01)
        torch.manual_seed(1)
        for seed in range(20):
            method.step(mean_losses(), *make_data(seed=seed).split([16 // micro_batches] * micro_batches))
        with method.challenger():
            rival = flat([*model.buffers(), *model.parameters()])
        ends.append(torch.cat([rival, flat([*model.buffers(), *model.parameters()])]))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_equal_copies_have_the_merit_of_equal_copies_even_with_dropout(evaluation: Any) -> None:
    model = make_net(dropout=0.5, batch_norm=True)
    method = make_sims(model, tau=0.7, evaluation=evaluation)
    report = method.backward(mean_losses((1.0, 1e6, 1e-6)), make_data())
    assert report.merit == pytest.approx(0.7 * math.log(len(TASKS)), abs=1e-14)
    assert list(report.weights.values()) == pytest.approx([1 / 3] * 3, abs=1e-14)
    assert report.losses == report.challenger


def test_equal_rates_keep_the_copies_equal_and_descend_on_the_sum_of_logs() -> None:
    model, plain, data = make_net(), make_net(), make_data()
    method = make_sims(model, outer=sgd(0.05), inner=sgd(0.05))
    optimizer = sgd(0.05)(plain.parameters())
    for step in range(20):
        with pytest.warns(UserWarning, match="stay equal") if step == 0 else nullcontext():
            report = method.step(mean_losses(), data)
        assert report.losses == report.challenger
        optimizer.zero_grad()
        torch.autograd.backward(torch.stack(list(mean_losses()(plain, data).values())).log().mean())
        optimizer.step()
    torch.testing.assert_close(parameters(model), parameters(plain), rtol=0, atol=1e-12)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_each_copy_sees_each_batch_once(evaluation: Any, micro_batches: int) -> None:
    """Running statistics are those of an ordinary module that is run over the same batches."""
    model = make_net(batch_norm=True)
    method = make_sims(model, evaluation=evaluation, outer=sgd(0.0), inner=sgd(0.0), perturb=0.1)
    plain = deepcopy(model)
    with method.challenger():
        rival = deepcopy(model)
    for seed in range(3):
        parts = make_data(seed=seed).split([16 // micro_batches] * micro_batches)
        method.step(mean_losses(), *parts)
        for part in parts:
            plain(part.x)
            rival(part.x)
    torch.testing.assert_close(flat(model.buffers()), flat(plain.buffers()), rtol=0, atol=1e-14)
    with method.challenger():
        torch.testing.assert_close(flat(model.buffers()), flat(rival.buffers()), rtol=0, atol=1e-14)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_looking_again_leaves_no_trace_in_the_buffers(evaluation: Any) -> None:
    """In alternating order the challenger runs twice, at two points; its buffers are those of the first."""
    model, data = make_net(batch_norm=True), make_data()
    method = make_sims(model, evaluation=evaluation, order="alternating", perturb=0.1)
    with method.challenger():
        rival = deepcopy(model)
    method.step(mean_losses(), data)
    rival(data.x)
    with method.challenger():
        torch.testing.assert_close(flat(model.buffers()), flat(rival.buffers()), rtol=0, atol=1e-14)


def test_observing_leaves_no_trace_in_the_buffers() -> None:
    model, data = make_net(batch_norm=True), make_data()
    plain = deepcopy(model)
    SCALARIZED["FAMO"](model).step(mean_losses(), data)
    plain(data.x)
    torch.testing.assert_close(flat(model.buffers()), flat(plain.buffers()), rtol=0, atol=1e-14)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_the_number_of_passes_is_what_the_documentation_says(evaluation: Any) -> None:
    calls = {"forward": 0}

    def counted(model: nn.Module, data: Data) -> dict[str, Tensor]:
        calls["forward"] += 1
        return mean_losses()(model, data)

    expected = {("sequential", 1): 3, ("joint", 1): 2, ("sequential", 4): 4, ("joint", 4): 4}
    for micro_batches in (1, 4):
        method = make_sims(make_net(), evaluation=evaluation)
        calls["forward"] = 0
        method.step(counted, *make_data().split([16 // micro_batches] * micro_batches))
        assert calls["forward"] == expected[evaluation, micro_batches] * micro_batches


def test_backward_and_update_are_a_step() -> None:
    ends = []
    for halves in (False, True):
        model = make_net(dropout=0.2)
        method = make_sims(model)
        for seed in range(5):
            if halves:
                method.backward(mean_losses(), make_data(seed=seed))
                method.update()
            else:
                method.step(mean_losses(), make_data(seed=seed))
        ends.append(parameters(model))
    assert torch.equal(*ends)


def test_clipping_bounds_the_step_of_both_copies() -> None:
    model = make_net()
    method = make_sims(model, outer=sgd(1.0), inner=sgd(1.0), perturb=0.3)
    before = parameters(model)
    with method.challenger():
        rival = parameters(model)
    method.backward(mean_losses(), make_data())
    norm = method.clip_grad_norm_(1e-3)
    assert norm > 1e-3
    method.update()
    assert (parameters(model) - before).norm() == pytest.approx(1e-3, rel=1e-3)
    with method.challenger():
        assert (parameters(model) - rival).norm() == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("form", ["mapping", "reversed", "sequence", "tensor", "sums", "pair"])
def test_all_forms_of_losses_take_the_same_step(form: str) -> None:
    def closure(model: nn.Module, data: Data) -> Any:
        losses = mean_losses()(model, data)
        return {
            "mapping": losses,
            "reversed": dict(reversed(losses.items())),
            "sequence": list(losses.values()),
            "tensor": torch.stack(list(losses.values())),
            "sums": task_losses(model, data),
            "pair": (losses, model(data.x)["a"]),
        }[form]

    model, expected, data = make_net(), make_net(), make_data()
    method, plain = make_sims(model), make_sims(expected)
    for _ in range(5):
        report = method.step(closure, data)
        plain.step(mean_losses(), data)
    torch.testing.assert_close(parameters(model), parameters(expected), rtol=0, atol=1e-13)
    assert tuple(report.losses) == (("0", "1", "2") if form in ("sequence", "tensor") else TASKS)
    if form == "pair":
        assert report.aux.shape == (16,)


def test_a_preference_is_paid_attention_to() -> None:
    method = make_sims(make_net(), preference={"b": 4.0}, tau=1.0)
    report = method.step(mean_losses(), make_data())
    assert list(report.weights.values()) == pytest.approx([1 / 6, 4 / 6, 1 / 6])  # in the first step L = R


def test_augmentation_is_a_floor_under_the_weights() -> None:
    method = make_sims(make_net(), tau=1e-3, augment=0.5, perturb=0.5)
    report = method.step(mean_losses(), make_data())
    assert min(report.weights.values()) == pytest.approx(0.5 / 2.5, abs=1e-6)
    assert sum(report.weights.values()) == pytest.approx(1)


def test_perturbation_is_seeded_and_equally_far_in_every_coordinate() -> None:
    rivals = []
    for seed in (0, 0, 1):
        model = make_net()
        start = parameters(model)
        with make_sims(model, perturb=0.1, seed=seed).challenger():
            rivals.append(parameters(model) - start)
        torch.testing.assert_close(rivals[-1].abs(), torch.full_like(start, 0.1))
    assert torch.equal(rivals[0], rivals[1])
    assert not torch.equal(rivals[0], rivals[2])


def test_an_unlabelled_task_is_as_good_as_absent() -> None:
    def two_tasks(model: nn.Module, data: Data) -> TaskLosses:
        losses = task_losses(model, data)
        assert isinstance(losses.total, dict)
        assert isinstance(losses.count, dict)
        return TaskLosses({t: losses.total[t] for t in "ab"}, {t: losses.count[t] for t in "ab"})

    model, expected, data = make_net(), make_net(), make_data()
    data.known[:, 2] = False
    method, plain = (make_sims(m, augment=0.1, perturb=0.1) for m in (model, expected))
    for _ in range(10):
        report = method.step(task_losses, data)
        plain.step(two_tasks, data)
    torch.testing.assert_close(parameters(model), parameters(expected), rtol=0, atol=1e-13)
    assert report.weights["c"] == 0
    assert math.isnan(report.losses["c"])
    assert sum(report.weights.values()) == pytest.approx(1)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_frozen_parameters_are_shared_by_storage(evaluation: Any) -> None:
    model = make_net(frozen=True)
    stem = model.stem.weight.data_ptr()
    seen: list[int] = []

    def closure(module: Any, data: Data) -> dict[str, Tensor]:
        seen.append(module.stem.weight.data_ptr())
        return mean_losses()(module, data)

    method = make_sims(model, evaluation=evaluation)
    method.step(closure, make_data())
    assert set(seen) == {stem}
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert sum(p.numel() for p in method._challenger.parameters) == trainable


def test_schedulers_and_parameter_groups_work_as_usual() -> None:
    def grouped(named: list[tuple[str, nn.Parameter]]) -> torch.optim.SGD:
        heads = [p for name, p in named if name.startswith("heads")]
        rest = [p for name, p in named if not name.startswith("heads")]
        groups: list[dict[str, Any]] = [{"params": rest}, {"params": heads, "lr": 0.0}]
        return torch.optim.SGD(groups, lr=0.1)

    model = make_net()
    heads = flat(model.heads.parameters())
    method = make_sims(model, outer=grouped)
    scheduler = StepLR(method.outer, step_size=1, gamma=0.5)
    for _ in range(3):
        method.step(mean_losses(), make_data())
        scheduler.step()
    assert torch.equal(flat(model.heads.parameters()), heads)
    assert method.outer.param_groups[0]["lr"] == pytest.approx(0.1 / 8)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_a_gradient_scaler_changes_nothing(evaluation: Any) -> None:
    ends = []
    for scaler in (None, torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=2)):
        model = make_net(torch.float32)
        method = make_sims(model, evaluation=evaluation, prox=0.01)
        for seed in range(6):
            method.backward(mean_losses(), make_data(dtype=torch.float32, seed=seed), scaler=scaler)
            method.clip_grad_norm_(10.0)
            method.update()
            if scaler is not None and seed % 2:
                scaler.update()
        ends.append(parameters(model))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-6)


@pytest.mark.parametrize("whole_step", [False, True])
@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_autocast_sees_the_values_of_the_copy_it_runs(evaluation: Any, whole_step: bool) -> None:
    """Casts are cached per tensor; a stale one would show as a merit of equal copies."""

    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return {task: loss.float() for task, loss in mean_losses()(model, data).items()}

    model, exact, data = make_net(torch.float32), make_net(torch.float32), make_data(dtype=torch.float32)
    method, plain = (make_sims(m, evaluation=evaluation, perturb=0.1, order="alternating") for m in (model, exact))
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=whole_step):
            report = method.step(closure, data)
        expected = plain.step(mean_losses(), data)
    assert report.merit == pytest.approx(expected.merit, abs=0.02)
    assert list(report.challenger.values()) == pytest.approx(list(expected.challenger.values()), rel=0.05)
    torch.testing.assert_close(parameters(model), parameters(exact), rtol=0, atol=0.02)


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_a_compiled_model_takes_the_same_steps(evaluation: Any) -> None:
    model, plain, data = make_net(dropout=0.2), make_net(dropout=0.2), make_data()
    compiled: Any = torch.compile(model, backend="aot_eager")
    method, expected = make_sims(compiled, evaluation=evaluation), make_sims(plain)
    for each in (method, expected):
        torch.manual_seed(3)
        for _ in range(3):
            each.step(mean_losses(), data)
    torch.testing.assert_close(parameters(model), parameters(plain), rtol=0, atol=1e-12)


@pytest.mark.parametrize("normalizer", [normalizers.Fixed(1), normalizers.EpochWise(), normalizers.EMA(0.5)])
@drops_gradients
@equal_copies
def test_a_normalizer_divides_both_copies_losses(normalizer: normalizers.Normalizer) -> None:
    """After the estimate, FOOPS on normalized losses does not see a change of units."""
    ends = []
    for scales in ((1.0, 1.0, 1.0), (2.0**10, 1.0, 2.0**-10)):
        model = make_net()
        method = FOOPS(model, tau=1.0, outer=sgd(0.02), inner=sgd(0.1), normalize=deepcopy(normalizer))
        method.backward(mean_losses(scales), make_data())  # dropped: statistics must not see it
        if not isinstance(normalizer, normalizers.EMA):
            method.outer.param_groups[0]["lr"] = method.inner.param_groups[0]["lr"] = 0.0
            method.step(mean_losses(scales), make_data())
            method.end_epoch()
            method.outer.param_groups[0]["lr"], method.inner.param_groups[0]["lr"] = 0.02, 0.1
        for seed in range(5):
            method.step(mean_losses(scales), make_data(seed=seed))
        ends.append(parameters(model))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)
    assert not torch.equal(ends[0], parameters(make_net()))


def test_a_closure_without_batches_is_called_with_the_model_alone() -> None:
    class Point(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.theta = nn.Parameter(torch.tensor([2.0, 1.0]))

    model = Point()
    method = SIMS(model, tau=1.0, outer=partial(Adam, lr=0.05), inner=partial(Adam, lr=0.1))
    for _ in range(200):
        method.step(lambda m: [(m.theta - 1).square().sum() + 1, 1e6 * ((m.theta + 1).square().sum() + 1)])
    assert (model.theta[0] - model.theta[1]).abs() < 0.05  # on the segment between the two minima
