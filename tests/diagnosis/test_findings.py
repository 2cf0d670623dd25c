"""Every finding is made where its fault was planted, names the task, and is not made without the fault."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.support import TASKS, Data, make_data, make_net, mean_losses, task_losses
from torchsims import Diagnosis, TaskLosses, diagnose

Closure = Callable[[nn.Module, Data], Any]


def data(share: float = 1.0, batches: int = 4) -> list[Data]:
    return [make_data(seed=seed, share=share) for seed in range(batches)]


def kinds(diagnosis: Diagnosis) -> dict[str, tuple[str, ...]]:
    return {finding.kind: finding.tasks for finding in diagnosis.findings}


def with_b(change: Callable[[Tensor, Tensor], Tensor]) -> Closure:
    """Return a closure whose task b has another loss: a function of its prediction and its target."""

    def closure(model: nn.Module, batch: Data) -> dict[str, Tensor]:
        return mean_losses()(model, batch) | {"b": change(model(batch.x)["b"], batch.y[:, 1])}

    return closure


def memorised(prediction: Tensor, target: Tensor) -> Tensor:
    """Return a loss of almost zero: the target is what is predicted, but for very little."""
    return (prediction - prediction.detach() - 1e-4 * target).square().mean()


def opposite(model: nn.Module, batch: Data) -> dict[str, Tensor]:
    """Return losses of two tasks that want the same output to go up and down."""
    out = model(batch.x)
    return {"a": (out["a"] - 3).square().mean(), "b": (out["a"] + 3).square().mean(), "c": out["c"].square().mean()}


def alike(model: nn.Module, batch: Data) -> dict[str, Tensor]:
    out = model(batch.x)
    return {"a": (out["a"] - 3).square().mean(), "b": (out["a"] - 2).square().mean(), "c": out["c"].square().mean()}


def outlier(batch: Data) -> Data:
    return Data(batch.x, batch.y * torch.tensor([1.0, 30.0, 1.0]), batch.known)


def unlabelled(batch: Data) -> Data:
    return Data(batch.x, batch.y, batch.known & torch.tensor([True, False, True]))


def a_few(batch: Data) -> Data:
    known = batch.known.clone()
    known[7:, 1] = False
    return Data(batch.x, batch.y, known)


FAULTS: dict[str, tuple[Closure, list[Data], dict[str, tuple[str, ...]]]] = {
    "a large unit": (mean_losses((1, 1e6, 1)), data(), {"dominates": ("b",), "dropped": ("a", "c")}),
    "a small unit": (mean_losses((1, 1e-6, 1)), data(), {"dropped": ("b",)}),
    "memorised": (with_b(memorised), data(), {"dropped": ("b",), "chased": ("b",)}),
    "targets in other units": (with_b(lambda p, y: (p - 1e3 * y).square().mean()), data(), {"far": ("b",)}),
    "negative": (with_b(lambda p, y: (p - y).square().mean() - 5), data(), {"not positive": ("b",)}),
    "clamped": (with_b(lambda p, y: (p.clamp(min=9) - y).square().mean()), data(), {"stuck": ("b",)}),
    "detached": (with_b(lambda p, y: 1 + 0 * p.sum()), data(), {"stuck": ("b",)}),
    "opposite": (opposite, data(), {"conflict": ("a", "b")}),
    "an outlier": (task_losses, [outlier(data()[0]), *data()[1:]], {"noisy": ("b",)}),
    "few labels": (task_losses, [a_few(d) for d in data()], {"missing": ("b",)}),
    "no label in a batch": (task_losses, [unlabelled(data()[0]), *data()[1:]], {"missing": ("b",)}),
}

MIXED = ("an outlier", "memorised", "clamped", "targets in other units")
"""Faults that change the sizes of gradients too."""

HEALTHY: dict[str, tuple[Closure, list[Data]]] = {
    "balanced": (mean_losses(), data()),
    "units that differ by ten": (mean_losses((1, 10, 1)), data()),
    "counts": (task_losses, data()),
    "labels missing here and there": (task_losses, data(share=0.8)),
    "a small loss in all tasks": (mean_losses((1e-8, 1e-8, 1e-8)), data()),
    "alike": (alike, data()),
    "a loss that is negative above its bound": (with_b(lambda p, y: (p - y).square().mean() + 5), data()),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else(name: str) -> None:
    closure, batches, expected = FAULTS[name]
    found = diagnose(make_net(), closure, batches)
    assert {kind: tasks for kind, tasks in kinds(found).items() if kind in expected} == expected
    side_effects = {"noisy", "dominates", "dropped"} if name in MIXED else set()
    assert kinds(found).keys() <= expected.keys() | side_effects
    for finding in found.findings:
        assert all(f"`{task}`" in finding.sentence for task in finding.tasks)
        assert any(letter.isdigit() for letter in finding.sentence)


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_stands_out_where_all_is_well(name: str) -> None:
    closure, batches = HEALTHY[name]
    found = diagnose(make_net(), closure, batches)
    assert found.findings == ()
    (sentence,) = found.advice
    assert sentence.startswith("Nothing stands out: shares of the gradient from 0.")


def outputs(operation: Callable[[Tensor], Tensor], target: Callable[[Tensor], Tensor]) -> Closure:
    """Return a closure that shows what task b predicts, and what it should."""

    def closure(model: nn.Module, batch: Data) -> Any:
        prediction, wanted = operation(model(batch.x)["b"]), target(batch.y[:, 1])
        error = (prediction - wanted).square().mean() / wanted.square().mean()
        return mean_losses()(model, batch) | {"b": error}, {"b": (prediction, wanted), "c": "anything else"}

    return closure


def positive(y: Tensor) -> Tensor:
    return 1.5 + y.abs()


@pytest.mark.parametrize(
    ("operation", "target", "name"),
    [
        (torch.sigmoid, positive, "sigmoid"),
        (lambda x: torch.tanh(x)[:, None].view(-1, 1).squeeze(1), positive, "tanh"),
        (torch.relu, torch.neg, "relu"),
        (lambda x: nn.functional.softplus(x)[: len(x)], torch.neg, "softplus"),
        (torch.exp, torch.neg, "exp"),
    ],
)
def test_outputs_that_cannot_reach_their_targets_are_found(
    operation: Callable[[Tensor], Tensor], target: Callable[[Tensor], Tensor], name: str
) -> None:
    found = diagnose(make_net(), outputs(operation, target), data())
    (finding,) = [finding for finding in found.findings if finding.kind == "unreachable"]
    assert finding.tasks == ("b",)
    assert f"`{name}`" in finding.sentence
    targets = target(torch.cat([d.y[:, 1] for d in data()]))
    each = found.outputs["b"]
    assert (each.target_low, each.target_high) == (targets.min().item(), targets.max().item())
    wrong = (targets > 1 if each.upper == 1 else targets < 0).double().mean().item()
    assert each.outside == pytest.approx(wrong)


@pytest.mark.parametrize(
    ("operation", "target"),
    [
        (torch.sigmoid, torch.sigmoid),
        (torch.tanh, lambda y: y.sign()),
        (torch.relu, positive),
        (lambda x: x, positive),
        (lambda x: 9 * torch.sigmoid(x), positive),  # what follows the sigmoid may widen its range
        (lambda x: torch.sigmoid(x) + x, positive),
        (torch.relu, lambda y: torch.where(y > 0, y, torch.nan)),  # a target that is not known
    ],
)
def test_outputs_that_can_reach_their_targets_are_not(
    operation: Callable[[Tensor], Tensor], target: Callable[[Tensor], Tensor]
) -> None:
    def closure(model: nn.Module, batch: Data) -> Any:
        losses = mean_losses()(model, batch)
        return losses, {"b": (operation(model(batch.x)["b"]), target(batch.y[:, 1]))}

    found = diagnose(make_net(), closure, data())
    assert found.findings == ()
    each = found.outputs["b"]
    assert each.outside == 0
    assert all(map(math.isfinite, (each.low, each.high, each.target_low, each.target_high)))


def test_classes_are_not_compared_with_scores() -> None:
    def closure(model: nn.Module, batch: Data) -> Any:
        return mean_losses()(model, batch), {"b": (model(batch.x)["b"].sigmoid(), (9 * batch.y[:, 1]).long())}

    assert diagnose(make_net(), closure, data()).outputs == {}


def test_the_share_of_missing_labels() -> None:
    known = torch.stack([torch.cat([d.known[:, i] for d in data(share=0.6)]) for i in range(3)]).double().mean(1)
    relative = diagnose(make_net(), task_losses, data(share=0.6)).missing
    assert list(relative.values()) == pytest.approx((1 - known / known.max()).tolist())

    def closure(model: nn.Module, batch: Data) -> Any:
        out = model(batch.x)
        pairs = {task: (out[task][:, None], batch.y[:, i]) for i, task in enumerate(TASKS)}
        return task_losses(model, batch), pairs

    assert list(diagnose(make_net(), closure, data(share=0.6)).missing.values()) == pytest.approx((1 - known).tolist())
    assert all(map(math.isnan, diagnose(make_net(), mean_losses(), data()).missing.values()))


def test_tasks_without_shared_parameters_are_named_so() -> None:
    model = nn.ModuleDict({"a": nn.Linear(5, 1), "b": nn.Linear(5, 1)}).double()

    def closure(model: nn.Module, batch: Data) -> dict[str, Tensor]:
        return {task: (model[task](batch.x)[:, 0] - batch.y[:, i]).square().mean() for i, task in enumerate("ab")}  # type: ignore[index]

    found = diagnose(model, closure, data())
    assert kinds(found) == {"nothing shared": ("a", "b")}
    assert found.shared == 0
    assert found.layers == {}


def test_one_task_has_nothing_to_be_compared_with() -> None:
    found = diagnose(make_net(), lambda model, batch: {"a": mean_losses()(model, batch)["a"]}, data())
    assert found.advice == ("Nothing stands out.",)


def test_a_task_that_is_never_labelled() -> None:
    found = diagnose(make_net(), task_losses, [unlabelled(d) for d in data()])
    assert kinds(found) == {"missing": ("b",)}
    assert "Task `b` lacks 100 % of its labels and has no label in 4 of 4 batches." in found.advice[0]
    assert math.isnan(found.loss["b"])
    assert math.isnan(found.cosines["a"]["b"])
    assert found.share["a"] + found.share["c"] == pytest.approx(1)


def test_a_batch_without_any_label() -> None:
    empty = [Data(d.x, d.y, d.known & False) for d in data()]
    found = diagnose(make_net(), task_losses, [*empty[:1], *data()[1:]])
    assert found.unlabelled == {"a": 1, "b": 1, "c": 1}
    nothing = diagnose(make_net(), task_losses, empty)
    assert set(kinds(nothing)) == {"missing"}  # whether parameters are shared is not known
    assert all(f"Task `{task}` has no label in 4 of 4 batches." in nothing.advice[i] for i, task in enumerate(TASKS))


@pytest.mark.parametrize("each", ["sample", "number"])
def test_a_target_of_several_numbers_counts_samples_or_numbers(each: str) -> None:
    def known(batch: Data) -> Tensor:
        return batch.known if each == "number" else batch.known[:, 0]

    def closure(model: nn.Module, batch: Data) -> Any:
        out = torch.stack(list(model(batch.x).values()), 1)
        error = (out - batch.y).square()
        total = {"all": (error if each == "number" else error.mean(1))[known(batch)].sum(), "a": error[:, 0].sum()}
        return TaskLosses(total, {"all": known(batch).sum(), "a": len(error)}), {"all": (out, batch.y)}

    share = torch.cat([known(d) for d in data(share=0.6)]).double().mean().item()
    assert diagnose(make_net(), closure, data(share=0.6)).missing["all"] == pytest.approx(1 - share)
