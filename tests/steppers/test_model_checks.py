"""Optimizers of the wrong parameters, and models that no longer are what they were, are errors with one sentence."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from helpers.small_runs import KINDS, OUTER, AnyMethod, batch, build, differences, network, snapshot, task_losses
from torchsims import SIMS, Aggregated, Scalarized
from torchsims.aggregations import MGDA
from torchsims.scalarizations import EW

SENTENCE = re.compile(r"[A-Z`].* should .*\. Found .*\.")

STEPPERS: dict[str, Callable[..., AnyMethod]] = {
    "outer of SIMS": lambda model, make: SIMS(model, outer=make, inner=OUTER, perturb=0.1),
    "inner of SIMS": lambda model, make: SIMS(model, outer=OUTER, inner=make, perturb=0.1),
    "inner of joint": lambda model, make: SIMS(model, outer=OUTER, inner=make, perturb=0.1, evaluation="joint"),
    "outer of Scalarized": lambda model, make: Scalarized(model, EW(), outer=make),
    "outer of Aggregated": lambda model, make: Aggregated(model, MGDA(), outer=make),
}


def assert_fails(make: Callable[[], Any], *words: str, error: type[Exception] = ValueError) -> None:
    with pytest.raises(error, match=SENTENCE) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("stepper", STEPPERS)
def test_an_optimizer_is_made_by_a_factory(stepper: str) -> None:
    model, option = network(), stepper.split()[0]
    built = Adam(model.parameters())
    assert_fails(lambda: STEPPERS[stepper](model, built), f"`{option}`", "`Adam`", "partial", error=TypeError)
    assert_fails(lambda: STEPPERS[stepper](model, lambda named: None), f"`{option}`", "`NoneType`", error=TypeError)


@pytest.mark.parametrize("stepper", STEPPERS)
def test_a_model_is_a_module(stepper: str) -> None:
    for wrong, found in ((None, "NoneType"), ("net", "str"), (nn.Linear, "the class `Linear`")):
        assert_fails(lambda wrong=wrong: STEPPERS[stepper](wrong, OUTER), "`model`", found, error=TypeError)  # type: ignore[misc]


@pytest.mark.parametrize("stepper", STEPPERS)
def test_an_optimizer_of_other_parameters_is_an_error(stepper: str) -> None:
    model, elsewhere = network(), nn.Linear(3, 2)

    def more(named: list[tuple[str, nn.Parameter]]) -> SGD:
        return SGD([*(p for _, p in named), elsewhere.weight], lr=0.1)

    assert_fails(lambda: STEPPERS[stepper](model, lambda _: SGD(elsewhere.parameters(), lr=0.1)), "shape (2, 3)")
    assert_fails(lambda: STEPPERS[stepper](model, more), f"`{stepper.split()[0]}`", "shape (2, 3)")


@pytest.mark.parametrize("stepper", ["inner of SIMS", "inner of joint"])
def test_an_optimizer_of_the_model_does_not_move_the_challenger(stepper: str) -> None:
    model = network()
    groups: list[dict[str, Any]] = [
        {"params": model.stem.parameters(), "lr": 0.1},
        {"params": model.trunk.parameters()},
    ]
    assert_fails(lambda: STEPPERS[stepper](model, lambda _: SGD(groups, lr=0.01)), "`stem.weight` of the model")


@pytest.mark.parametrize("stepper", STEPPERS)
def test_an_optimizer_of_a_part_of_the_parameters_is_allowed_with_a_warning(stepper: str) -> None:
    def heads_only(named: list[tuple[str, nn.Parameter]]) -> SGD:
        return SGD([p for name, p in named if name.startswith("heads")], lr=0.1)

    model = network()
    before = model.stem.weight.clone()
    with pytest.warns(UserWarning, match=r"leaves out `stem.weight`, .*requires_grad_\(False\)") as caught:
        method = STEPPERS[stepper](model, heads_only)
    assert [warning.filename for warning in caught] == [__file__]
    method.step(task_losses, batch(0))
    moves = isinstance(method, SIMS) and method.outer.param_groups[0]["lr"] == 0.01
    assert torch.equal(before, model.stem.weight) is not moves


@pytest.mark.parametrize("stepper", STEPPERS)
def test_frozen_parameters_may_be_in_an_optimizer(stepper: str) -> None:
    model = network()
    model.stem.requires_grad_(False)
    frozen = list(model.stem.parameters())
    method = STEPPERS[stepper](model, lambda named: SGD([*frozen, *(p for _, p in named)], lr=0.1))
    assert method.step(task_losses, batch(0)).skipped is None


def replaced(model: nn.Module) -> None:
    head: Any = model.get_submodule("heads.metres")
    head.weight = nn.Parameter(head.weight.detach().clone())


def removed(model: nn.Module) -> None:
    model.get_submodule("heads.metres").register_parameter("bias", None)


def added(model: nn.Module) -> None:
    model.get_submodule("heads").add_module("volts", nn.Linear(5, 1).double())


def converted(model: nn.Module) -> None:
    model.float()


CHANGES = [
    (replaced, ["`heads.metres.weight` replaced"]),
    (removed, ["`heads.metres.bias` removed"]),
    (added, ["`heads.volts.weight` added, `heads.volts.bias` added"]),
    (converted, ["`stem.weight`", "float32 on cpu instead of torch.float64 on cpu"]),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
@pytest.mark.parametrize("name", [*KINDS, "MGDA"])
def test_a_model_that_is_changed_after_construction_is_an_error(
    name: str, change: Callable[[nn.Module], None], words: list[str]
) -> None:
    model = network()
    method = Aggregated(model, MGDA(), outer=OUTER) if name == "MGDA" else build(name, model)
    method.step(task_losses, batch(0))
    change(model)
    before = snapshot(method)
    assert_fails(lambda: method.step(task_losses, batch(1)), *words)
    assert differences(snapshot(method), before) == []


def test_frozen_parameters_may_be_replaced_where_the_copies_share_them() -> None:
    def changed(name: str) -> AnyMethod:
        model = network()
        model.stem.requires_grad_(False)
        method = build(name, model)
        model.stem.weight = nn.Parameter(torch.zeros_like(model.stem.weight), requires_grad=False)
        return method

    assert changed("SIMS").step(task_losses, batch(0)).skipped is None
    assert_fails(lambda: changed("SIMS joint").step(task_losses, batch(0)), "frozen", "joint")


@pytest.mark.parametrize("stepper", STEPPERS)
def test_tensors_that_cannot_be_copied_are_errors_at_construction(stepper: str) -> None:
    def make(model: nn.Module) -> AnyMethod:
        return STEPPERS[stepper](model, OUTER)

    lazy = nn.Sequential(nn.Linear(2, 3), nn.LazyLinear(1))
    assert_fails(lambda: make(lazy), "`1.weight`", "lazy")
    assert_fails(lambda: make(nn.Sequential(nn.Linear(2, 2), nn.LazyBatchNorm1d(affine=False))), "`1.running_mean`")
    lazy(torch.ones(1, 2))
    make(lazy)
    assert_fails(lambda: make(nn.Linear(2, 3, device="meta")), "`weight`", "meta device")
    expanded = nn.Linear(2, 3)
    expanded.register_buffer("scale", torch.ones(1).expand(3))
    assert_fails(lambda: make(expanded), "`scale`", "expand")
    expanded.register_buffer("scale", torch.ones(3).expand(1, 3))
    make(expanded)
