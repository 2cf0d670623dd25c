"""What new users try first and does not work is one sentence that says what does."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

from helpers.methods import LOSS_LEVEL, STEPPERS, LossLevel
from helpers.support import TASKS, Data, flat, make_data, make_net, mean_losses, sgd
from torchsims import FOOPS, SIMS, Aggregated, Scalarized, Stepper
from torchsims.aggregations import MGDA
from torchsims.scalarizations import EW, LogMerit

FAMILIES: dict[str, Callable[..., Stepper[Any]]] = {
    "SIMS": partial(SIMS, inner=sgd(0.1)),
    "FOOPS": partial(FOOPS, inner=sgd(0.1)),
    "Scalarized": lambda model, **options: Scalarized(model, EW(), **options),
    "Aggregated": lambda model, **options: Aggregated(model, MGDA(), **options),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_an_optimizer_instead_of_its_factory(family: str) -> None:
    model = make_net()
    sentence = r"`outer` should make an optimizer .*`partial\(Adam, lr=1e-3\)`. Found an optimizer of type `Adam`"
    with pytest.raises(TypeError, match=sentence):
        FAMILIES[family](model, outer=Adam(model.parameters()))
    with pytest.raises(TypeError, match=r"`inner` should make an optimizer .* Found an optimizer of type `Adam`"):
        SIMS(model, outer=sgd(), inner=Adam(model.parameters()))  # type: ignore[arg-type]


OBJECTS: dict[str, tuple[Callable[[nn.Module], Any], str]] = {
    "a loss-level method": (
        lambda model: Scalarized(model, "ew", outer=sgd()),  # type: ignore[arg-type]
        r"`scalarization` should be an object, such as `EW\(\)`. Found 'ew'",
    ),
    "its class": (
        lambda model: Scalarized(model, EW, outer=sgd()),  # type: ignore[arg-type]
        r"`scalarization` should be an object, such as `EW\(\)`. Found the class `EW`",
    ),
    "a gradient-level method": (
        lambda model: Aggregated(model, "mgda", outer=sgd()),
        r"`aggregation` should be an object, such as `MGDA\(\)`. Found 'mgda'",
    ),
    "the class of it": (
        lambda model: Aggregated(model, MGDA, outer=sgd()),
        r"`aggregation` should be an object, such as `MGDA\(\)`. Found the class `MGDA`",
    ),
    "a transform": (
        lambda model: FAMILIES["SIMS"](model, outer=sgd(), transform="ln"),
        r"`transform` should be an object, such as `Log\(\)`. Found 'ln'",
    ),
    "a transform of gradients": (
        lambda model: FAMILIES["Aggregated"](model, outer=sgd(), transform="ln"),
        r"`transform` should be an object, such as `Log\(\)`. Found 'ln'",
    ),
    "a normalizer": (
        lambda model: FAMILIES["Scalarized"](model, outer=sgd(), normalize="ema"),
        r"`normalize` should be an object, such as `EMA\(\)`. Found 'ema'",
    ),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_name_instead_of_an_object(kind: str) -> None:
    make, sentence = OBJECTS[kind]
    with pytest.raises(TypeError, match=sentence):
        make(make_net())


@pytest.mark.parametrize("graph", ["freed", "kept", "made"])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "SIMS alternating", "EW", "LogMerit", "FAMO", "MGDA"])
def test_backward_inside_of_the_closure(name: str, parts: int, graph: str) -> None:
    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        with torch.set_grad_enabled(torch.is_grad_enabled() or graph == "made"):
            losses = mean_losses()(model, data)
            torch.stack(list(losses.values())).sum().backward(retain_graph=graph == "kept")  # type: ignore[no-untyped-call]
        return losses

    method = STEPPERS[name](make_net())
    before = flat(method.model.parameters())
    with pytest.raises(
        RuntimeError, match=r"should only compute losses. Found a call of `backward` inside of it: leave"
    ):
        method.step(closure, *make_data().split([16 // parts] * parts))
    assert torch.equal(flat(method.model.parameters()), before)
    assert all(p.grad is None for p in method.model.parameters())
    method.step(mean_losses(), make_data())


def test_other_errors_of_a_closure_stay_as_they_are() -> None:
    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        raise RuntimeError("backward")

    with pytest.raises(RuntimeError, match=r"^backward$"):
        STEPPERS["EW"](make_net()).step(closure, make_data())


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("case", LOSS_LEVEL, ids=lambda case: case.name)
def test_a_loss_without_a_logarithm_in_a_loop_of_ones_own(case: LossLevel, value: float) -> None:
    method = case.make(TASKS)
    if not method.positive:
        assert method(torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)).ndim == 0
        return
    method(torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64))
    if value == 0 and method.first_losses is not None:  # above a floor, losses may be zero
        assert method(torch.tensor([1.0, value, 2.0], dtype=torch.float64)).isfinite()
        return
    before = {name: each.clone() for name, each in method.named_buffers()}
    sentence = f"should be above 0 for `{type(method).__name__}`, and finite. Found {value}: a task without labels"
    with pytest.raises(ValueError, match=f"The loss of task `{'1' if method.tasks is None else 'b'}` {sentence}"):
        method(torch.tensor([1.0, value, 2.0], dtype=torch.float64))
    by_name = dict(zip(TASKS, torch.tensor([1.0, value, 2.0], dtype=torch.float64), strict=True))
    with pytest.raises(ValueError, match=f"The loss of task `b` {sentence}"):
        method(by_name)
    assert all(torch.equal(each, before[name]) for name, each in method.named_buffers())


def test_entries_without_labels_and_calls_without_a_check_are_not_looked_at() -> None:
    losses, labelled = torch.tensor([1.0, 0.0]), torch.tensor([True, False])
    assert LogMerit()(losses, labelled).isfinite()
    assert LogMerit()(losses, check=False).isnan()
    assert LogMerit()(losses.to("meta")).is_meta  # stands for an accelerator, which is not waited for
