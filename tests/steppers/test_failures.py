"""A failed step changes nothing: a clear error, and all is as it was, to the last bit and the next random number.

Each test trains a method and a twin, breaks a step of the first, compares its whole state with what it was, and then
lets both take the same good step.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import LBFGS, SGD, Adam

from helpers.methods import TWO_COPIES
from helpers.small_runs import (
    DOUBLE,
    INNER,
    KINDS,
    METHODS,
    OUTER,
    TASKS,
    AnyMethod,
    Batch,
    Losses,
    batch,
    build,
    differences,
    needs_positive,
    network,
    snapshot,
    task_losses,
    trained,
)
from helpers.support import Net, drops_gradients, make_net
from torchsims import FOOPS, SIMS, Scalarized, TaskLosses
from torchsims.normalizers import EpochWise
from torchsims.scalarizations import EW, UW, LogMerit

SENTENCE = re.compile(r"[A-Z`].* should .*\. Found .*\.", re.DOTALL)
"""The shape of every error: what should be, and what was found."""

BLAME = "Found some that are not: of task `pixels` in parameter `heads.pixels.weight` at a loss of "
"""What is said where the second task's gradients, and only they, are not finite."""

POSITIVE = [name for name in METHODS if needs_positive(name)]
SIGNED = [name for name in METHODS if name not in POSITIVE]
OPEN = [name for name in KINDS if name not in ("UW", "SIMS preferred")]
"""Methods that do not know their tasks from the start."""


def assert_same(first: Any, second: Any) -> None:
    assert differences(first, second) == []


def assert_next_steps_agree(method: AnyMethod, twin: AnyMethod, *batches: Batch) -> None:
    """Let both take the same good step from the same random numbers."""
    random = torch.get_rng_state()
    report = method.step(task_losses, *(batches or (batch(50),)))
    after = snapshot(method, report=vars(report))
    torch.set_rng_state(random)
    report = twin.step(task_losses, *(batches or (batch(50),)))
    assert_same(after, snapshot(twin, report=vars(report)))


def assert_refused(
    method: AnyMethod,
    closure: Callable[..., Any],
    *words: str,
    error: type[BaseException] = ValueError,
    batches: int = 1,
    sentence: bool = True,
) -> None:
    """Check that a step fails with the words in its message, changes nothing, and leaves no gradients behind."""
    before = snapshot(method)
    with pytest.raises(error) as caught:
        method.step(closure, *(batch(40 + i) for i in range(batches)))
    message = str(caught.value)
    assert not sentence or SENTENCE.fullmatch(message), message
    for word in words:
        assert word in message
    assert_same(snapshot(method), before)
    assert all(p.grad is None for p in method.model.parameters())


@dataclass
class Point:
    """Where a copy stands, to break the losses at one of the two."""

    weight: Tensor

    @staticmethod
    def of(method: AnyMethod) -> "Point":
        return Point(method.model.get_parameter("stem.weight").detach().clone())

    def holds(self, model: nn.Module) -> bool:
        return torch.equal(model.get_parameter("stem.weight"), self.weight)


Spoil = Callable[[nn.Module, Losses], Any]


def spoilt(method: AnyMethod, spoil: Spoil, at: str = "both") -> Callable[[nn.Module, Batch], Any]:
    """Return a closure whose losses are spoilt at the model, at the challenger, or at both."""
    theta = Point.of(method)

    def closure(model: nn.Module, batch: Batch) -> Any:
        losses = task_losses(model, batch)
        here = at == "both" or theta.holds(model) == (at == "model")
        return spoil(model, losses) if here else losses

    return closure


def becomes(value: float) -> Spoil:
    """Return what gives the second task this loss."""

    def spoil(model: nn.Module, losses: Losses) -> Losses:
        return {**losses, "pixels": losses["pixels"] * 0 + value}

    return spoil


def kinked(model: nn.Module, losses: Losses) -> Losses:
    """Leave every loss as it is, and give the second task a gradient that is not finite."""
    weight = model.get_parameter("heads.pixels.weight")
    return {**losses, "pixels": losses["pixels"] + (weight - weight.detach()).square().sum().sqrt()}


# Losses that no step can be taken from.


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", METHODS)
def test_a_loss_that_is_not_finite_is_refused(name: str, value: float, batches: int) -> None:
    method, twin = trained(name), trained(name)
    closure = spoilt(method, becomes(value))
    assert_refused(method, closure, "`pixels`", f"Found {value} at the model", batches=batches)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("value", [0.0, -1.5])
@pytest.mark.parametrize("name", POSITIVE)
def test_a_loss_that_is_not_positive_is_refused_where_a_logarithm_needs_it(name: str, value: float) -> None:
    method, twin = trained(name), trained(name)
    closure = spoilt(method, becomes(value))
    assert_refused(method, closure, "`pixels`", f"Found {value} at the model", "`lower_bounds`")
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("value", [0.0, -1.5])
@pytest.mark.parametrize("name", SIGNED)
def test_any_finite_loss_will_do_for_methods_that_take_no_logarithm(name: str, value: float) -> None:
    method = trained(name)
    report = method.step(spoilt(method, becomes(value)), batch(40))
    assert report.losses["pixels"] == value
    assert report.skipped is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, value)
        for name in TWO_COPIES
        for value in (float("nan"), float("inf"), 0.0, -1.5)
        if name not in SIGNED or value not in (0.0, -1.5)
    ],
)
def test_a_bad_loss_at_the_challenger_alone_is_refused(name: str, value: float) -> None:
    method, twin = trained(name), trained(name)
    closure = spoilt(method, becomes(value), at="challenger")
    assert_refused(method, closure, "`pixels`", f"Found {value} at the challenger")
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", ["SIMS alternating", "SIMS alternating joint"])
def test_a_bad_loss_where_the_challenger_has_moved_to_takes_its_step_back(name: str) -> None:
    method, twin = trained(name), trained(name)
    assert isinstance(method, SIMS)
    with method.challenger():
        start = Point.of(method)
    theta = Point.of(method)

    def closure(model: nn.Module, batch: Batch) -> Losses:
        losses = task_losses(model, batch)
        moved = not theta.holds(model) and not start.holds(model)
        return becomes(-2.5)(model, losses) if moved else losses

    assert_refused(method, closure, "`pixels`", "Found -2.5 at the challenger")
    assert_next_steps_agree(method, twin)


def test_a_bad_loss_after_the_step_that_famo_observes_takes_the_step_back() -> None:
    method, twin = trained("FAMO"), trained("FAMO")
    theta = Point.of(method)

    def closure(model: nn.Module, batch: Batch) -> Losses:
        losses = task_losses(model, batch)
        return losses if theta.holds(model) else becomes(-2.5)(model, losses)

    assert_refused(method, closure, "`pixels`", "Found -2.5 at the next point")
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", METHODS)
def test_the_first_step_may_fail_like_any_other(name: str) -> None:
    method, twin = trained(name, steps=0), trained(name, steps=0)
    assert_refused(method, spoilt(method, becomes(float("nan"))), "`pixels`", "nan", batches=2)
    assert_next_steps_agree(method, twin, batch(50), batch(51))


@pytest.mark.parametrize("name", OPEN)
def test_the_tasks_of_a_failed_first_step_bind_nobody(name: str) -> None:
    method, twin = trained(name, steps=0), trained(name, steps=0)

    def three(model: nn.Module, batch: Batch) -> Losses:
        losses = task_losses(model, batch)
        return {**losses, "third": losses["metres"] * float("nan")}

    assert_refused(method, three, "`third`", "nan", batches=2)
    assert_next_steps_agree(method, twin, batch(50), batch(51))


# What is not a loss at all.


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("count", [-6.0, float("nan"), float("inf")])
def test_a_count_that_counts_nothing_is_refused(name: str, count: float) -> None:
    def closure(model: nn.Module, batch: Batch) -> TaskLosses:
        return TaskLosses(task_losses(model, batch), {"metres": 1, "pixels": torch.tensor(count)})

    assert_refused(trained(name), closure, "The count of task `pixels`", f"Found {count}")


@pytest.mark.parametrize("name", KINDS)
def test_a_loss_that_depends_on_no_parameter_is_refused(name: str) -> None:
    method, twin = trained(name), trained(name)
    constant = torch.tensor(4.25, dtype=DOUBLE)
    closure = spoilt(method, lambda model, losses: {**losses, "pixels": constant})
    assert_refused(method, closure, "`pixels`", "4.25", "does not require a gradient")
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("at", ["model", "challenger"])
@pytest.mark.parametrize("name", TWO_COPIES)
def test_a_loss_that_depends_on_no_parameter_at_one_copy_is_refused(name: str, at: str) -> None:
    method, twin = trained(name), trained(name)
    closure = spoilt(method, lambda model, losses: {**losses, "pixels": losses["pixels"].detach()}, at=at)
    assert_refused(method, closure, "`pixels`", "does not require a gradient")
    assert_next_steps_agree(method, twin)


NOT_LOSSES: list[Any] = [
    pytest.param(lambda losses: {**losses, "pixels": 0.5}, TypeError, ("`pixels`", "float"), id="float"),
    pytest.param(
        lambda losses: {**losses, "pixels": losses["pixels"].expand(3)}, ValueError, ("`pixels`", "(3,)"), id="vector"
    ),
    pytest.param(lambda losses: losses["pixels"], ValueError, ("shape ()",), id="scalar-tensor"),
    pytest.param(lambda losses: 0.5, TypeError, ("float",), id="plain-float"),
    pytest.param(lambda losses: None, TypeError, ("NoneType",), id="nothing"),
    pytest.param(lambda losses: {}, ValueError, ("at least one loss",), id="no-task-by-name"),
    pytest.param(lambda losses: [], ValueError, ("at least one loss",), id="no-task-in-order"),
    pytest.param(lambda losses: torch.ones(0), ValueError, ("at least one loss",), id="no-task-in-a-tensor"),
    pytest.param(lambda losses: TaskLosses({}, {}), ValueError, ("at least one loss",), id="no-task-with-counts"),
    pytest.param(
        lambda losses: {**losses, "third": losses["metres"]},
        ValueError,
        ("['metres', 'pixels']", "['metres', 'pixels', 'third']"),
        id="appears",
    ),
    pytest.param(
        lambda losses: {"pixels": losses["pixels"]}, ValueError, ("['metres', 'pixels']", "['pixels']"), id="vanishes"
    ),
    pytest.param(
        lambda losses: {"metres": losses["metres"], "inches": losses["pixels"]},
        ValueError,
        ("['metres', 'pixels']", "['inches', 'metres']"),
        id="renamed",
    ),
    pytest.param(
        lambda losses: list(losses.values()), ValueError, ("['metres', 'pixels']", "['0', '1']"), id="lost-its-names"
    ),
]


@pytest.mark.parametrize(("spoil", "error", "words"), NOT_LOSSES)
@pytest.mark.parametrize("name", KINDS)
def test_what_is_not_the_losses_of_the_tasks_is_refused(
    name: str, spoil: Callable[[Losses], Any], error: type[Exception], words: tuple[str, ...]
) -> None:
    method, twin = trained(name), trained(name)
    closure = spoilt(method, lambda model, losses: spoil(losses))
    assert_refused(method, closure, *words, error=error)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", OPEN)
def test_a_sequence_that_changes_its_length_or_gets_names_is_refused(name: str) -> None:
    method, twin = trained(name, steps=0), trained(name, steps=0)

    def in_order(model: nn.Module, batch: Batch) -> list[Tensor]:
        return list(task_losses(model, batch).values())

    random = torch.get_rng_state()
    for each in (method, twin):
        torch.set_rng_state(random)
        each.step(in_order, batch(0))
    longer = spoilt(method, lambda model, losses: [*losses.values(), losses["metres"]])
    assert_refused(method, longer, "2 losses", "Found 3")
    assert_refused(method, spoilt(method, lambda model, losses: [losses["metres"]]), "2 losses", "Found 1")
    assert_refused(method, task_losses, "['0', '1']", "['metres', 'pixels']")
    random = torch.get_rng_state()
    for each in (method, twin):
        torch.set_rng_state(random)
        each.step(in_order, batch(1))
    assert_same(snapshot(method), snapshot(twin))


@pytest.mark.parametrize("name", METHODS)
def test_a_task_that_vanishes_in_the_second_micro_batch_is_refused(name: str) -> None:
    method, twin = trained(name), trained(name)
    calls = 0

    def closure(model: nn.Module, batch: Batch) -> Losses:
        nonlocal calls
        calls += 1
        losses = task_losses(model, batch)
        return losses if calls == 1 else {"metres": losses["metres"]}

    assert_refused(method, closure, "['metres', 'pixels']", "['metres']", batches=2)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("option", ["preference", "lower_bounds"])
def test_an_option_for_an_unknown_task_is_refused(option: str) -> None:
    settings: dict[str, Any] = {option: {"metres": 0.5, "inches": 0.25}}
    method = build("SIMS", network(), **settings)
    assert_refused(method, task_losses, f"`{option}`", "['metres', 'pixels']", "['inches']")


def test_a_lower_bound_for_an_unknown_task_of_a_one_copy_method_is_refused() -> None:
    method = Scalarized(network(), LogMerit(), outer=OUTER, lower_bounds={"inches": -1.0})
    assert_refused(method, task_losses, "`lower_bounds`", "['metres', 'pixels']", "['inches']")


def test_a_method_made_for_other_tasks_is_refused_at_its_first_step() -> None:
    method = Scalarized(network(), UW(["metres", "inches"], dtype=DOUBLE), outer=OUTER)
    assert_refused(method, task_losses, "['metres', 'inches']", "['metres', 'pixels']")


# Gradients.


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_gradients_that_are_not_finite_are_refused_by_task_and_parameter(name: str, batches: int) -> None:
    method, twin = trained(name), trained(name)
    assert_refused(method, spoilt(method, kinked), BLAME, batches=batches)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("at", ["model", "challenger"])
@pytest.mark.parametrize("name", TWO_COPIES)
def test_gradients_that_are_not_finite_at_one_copy_are_refused(name: str, at: str) -> None:
    method, twin = trained(name), trained(name)
    report = method.backward(task_losses, batch(40))
    value = (report.losses if at == "model" else report.challenger)["pixels"]
    method = trained(name)
    # In alternating order that report has the losses to which the challenger had moved.
    said = "" if "alternating" in name and at == "challenger" else f"{value}."
    assert_refused(method, spoilt(method, kinked, at=at), BLAME + said)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", KINDS)
def test_the_guilty_task_is_found_beside_a_micro_batch_without_labels(name: str) -> None:
    method = trained(name, steps=1)

    def closure(model: nn.Module, batch: Batch) -> TaskLosses:
        if torch.equal(batch[0], unlabelled):
            return TaskLosses(dict.fromkeys(TASKS, torch.zeros((), dtype=DOUBLE)), dict.fromkeys(TASKS, 0))
        return TaskLosses(kinked(model, task_losses(model, batch)), dict.fromkeys(TASKS, 1))

    unlabelled = batch(40)[0]
    if name in ("EW", "RLW"):  # their losses are expected to stay plain scalars, or not to
        method = trained(name, steps=0)
    assert_refused(method, closure, BLAME, batches=2)


def test_a_loss_too_small_for_its_precision_is_refused_with_the_losses_named() -> None:
    """In single precision the slope of the logarithm overflows at 1e-42, though every gradient is finite."""
    method = trained("SIMS", dtype=torch.float32)
    tiny = torch.tensor(1e-42)
    before = snapshot(method)

    def closure(model: nn.Module, batch: Batch) -> Losses:
        losses = task_losses(model, batch)
        return {**losses, "pixels": losses["pixels"] - losses["pixels"].detach() + tiny}

    with pytest.raises(ValueError, match=r"should be finite\. Found .*'pixels': 1\.\d+e-42"):
        method.step(closure, batch(40, torch.float32))
    assert_same(snapshot(method), before)


# Closures that fail or do not do as they are told.


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("name", METHODS)
def test_a_closure_may_raise_in_any_pass(name: str, batches: int, error: type[BaseException]) -> None:
    method, twin = trained(name), trained(name)
    random = torch.get_rng_state()
    calls, fatal = 0, 0

    def closure(model: nn.Module, batch: Batch) -> Losses:
        nonlocal calls
        calls += 1
        losses = task_losses(model, batch)
        if calls == fatal:
            raise error("the data are gone")
        return losses

    trained(name).step(closure, *(batch(40 + i) for i in range(batches)))
    expected = calls
    torch.set_rng_state(random)
    assert expected >= batches
    for fatal in range(1, expected + 1):
        calls = 0
        assert_refused(method, closure, "the data are gone", error=error, batches=batches, sentence=False)
        assert calls == fatal
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", KINDS)
def test_a_closure_that_leaves_gradients_disabled_changes_no_step(name: str) -> None:
    method, twin = trained(name), trained(name)

    def closure(model: nn.Module, batch: Batch) -> Losses:
        losses = task_losses(model, batch)
        torch.set_grad_enabled(False)
        return losses

    random = torch.get_rng_state()
    method.step(closure, batch(40))
    assert torch.is_grad_enabled()
    torch.set_rng_state(random)
    twin.step(task_losses, batch(40))
    assert_same(snapshot(method), snapshot(twin))


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_a_closure_that_uses_another_model_is_refused(name: str, batches: int) -> None:
    method, twin = trained(name), trained(name)
    other = network()

    def closure(model: nn.Module, batch: Batch) -> Losses:
        return task_losses(other, batch)

    assert_refused(method, closure, "the model it is given", "no gradient", batches=batches)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("captures", ["everywhere", "one task"])
@pytest.mark.parametrize("name", ["SIMS joint", "SIMS alternating joint"])
def test_a_closure_that_uses_the_model_where_it_is_given_the_challenger_is_refused(
    name: str, captures: str, batches: int
) -> None:
    method, twin = trained(name), trained(name)
    theta = method.model

    def closure(model: nn.Module, batch: Batch) -> Losses:
        mine = task_losses(theta, batch)
        return mine if captures == "everywhere" else {**task_losses(model, batch), "metres": mine["metres"]}

    assert_refused(method, closure, "the model it is given", "another copy", batches=batches)
    assert_next_steps_agree(method, twin)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_trainable_parameters_are_expected_in_every_step(name: str) -> None:
    model = network()
    model.heads["metres"].bias.requires_grad_(False)
    method = build(name, model)
    method.step(task_losses, batch(0))
    model.zero_grad()
    model.heads["metres"].bias.requires_grad_(True)
    assert_refused(method, task_losses, "`heads.metres.bias`", "unfrozen")
    model.heads["metres"].bias.requires_grad_(False)
    model.heads["pixels"].weight.requires_grad_(False)
    assert_refused(method, task_losses, "`heads.pixels.weight`", "frozen")
    model.heads["pixels"].weight.requires_grad_(True)
    assert method.step(task_losses, batch(1)).skipped is None


@pytest.mark.parametrize("name", KINDS)
def test_a_model_without_trainable_parameters_is_refused(name: str) -> None:
    for model in (network().requires_grad_(False), nn.Identity()):
        with pytest.raises(ValueError, match=SENTENCE):
            build(name, model)


# Settings.

BAD_SETTINGS: list[tuple[str, Any]] = [
    *(("tau", value) for value in (0.0, -1.0, float("nan"), float("inf"))),
    *((option, value) for option in ("prox", "augment", "perturb") for value in (-0.5, float("nan"), float("inf"))),
    *(("preference", {"pixels": value}) for value in (0.0, -1.0, float("nan"), float("inf"))),
    *(("lower_bounds", {"pixels": value}) for value in (float("nan"), float("inf"), -float("inf"))),
    ("order", "backwards"),
    ("evaluation", "never"),
]


@pytest.mark.parametrize(("option", "value"), BAD_SETTINGS)
@pytest.mark.parametrize("method", [SIMS, FOOPS])
def test_bad_settings_are_refused_at_construction(method: type[SIMS], option: str, value: Any) -> None:
    found = value["pixels"] if isinstance(value, dict) else value
    settings: dict[str, Any] = {option: value}
    with pytest.raises(ValueError, match=SENTENCE) as caught:
        method(network(), outer=OUTER, inner=INNER, **settings)
    assert f"`{option}`" in str(caught.value)
    assert str(found) in str(caught.value)
    assert not isinstance(value, dict) or "`pixels`" in str(caught.value)


def test_an_optimizer_that_needs_a_closure_is_refused_at_construction() -> None:
    for make in (
        lambda: SIMS(network(), outer=LBFGS, inner=INNER),
        lambda: SIMS(network(), outer=OUTER, inner=partial(LBFGS, lr=0.1)),
        lambda: Scalarized(network(), EW(), outer=LBFGS),
    ):
        with pytest.raises(ValueError, match=r"should step without a closure\. Found `LBFGS`"):
            make()


def test_bad_lower_bounds_of_a_one_copy_method_are_refused_at_construction() -> None:
    with pytest.raises(ValueError, match=r"`lower_bounds` should be finite\. Found nan for task `pixels`\."):
        Scalarized(network(), EW(), outer=OUTER, lower_bounds={"pixels": float("nan")})


# Lower bounds.

BOUNDED: dict[str, dict[str, Any]] = {
    "SIMS": {},
    "SIMS joint": {},
    "SIMS alternating": {},
    "FOOPS": {},
    "LogMerit": {},
    "FAMO": {},
    "GLS": {},
    "STCH-normalized": {"normalize": EpochWise()},
}


@pytest.mark.parametrize("name", BOUNDED)
def test_lower_bounds_allow_negative_losses_and_train_on_the_distance_to_them(name: str) -> None:
    bound = -4096.0  # below every loss that occurs, and exact

    def negative(model: nn.Module, batch: Batch) -> Losses:
        losses = task_losses(model, batch)
        return {**losses, "pixels": losses["pixels"] - 4000}

    def shifted(model: nn.Module, batch: Batch) -> Losses:
        losses = negative(model, batch)
        return {**losses, "pixels": losses["pixels"] - bound}

    results = []
    for closure, bounds in ((negative, {"pixels": bound}), (shifted, None)):
        method = build(name, network(), lower_bounds=bounds, **deepcopy(BOUNDED[name]))
        torch.manual_seed(5)
        reports = [method.step(closure, batch(i)) for i in range(4)]
        if bounds:
            assert all(report.losses["pixels"] < 0 for report in reports)
        results.append(snapshot(method))
    assert_same(*results)


def test_a_loss_at_its_lower_bound_is_refused() -> None:
    method = build("SIMS", network(), lower_bounds={"pixels": -3.0})
    method.step(spoilt(method, becomes(-2.5)), batch(0))
    assert_refused(method, spoilt(method, becomes(-3.0)), "`pixels`", "above -3", "Found -3.0 at the model")
    assert_refused(method, spoilt(method, becomes(-3.5)), "`pixels`", "above -3", "Found -3.5 at the model")


# Labels.


@pytest.mark.parametrize("connected", [True, False])
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_a_batch_without_any_label_changes_nothing_and_says_so(name: str, batches: int, connected: bool) -> None:
    method, twin = trained(name, steps=0), trained(name, steps=0)

    def counted(model: nn.Module, batch: Batch) -> TaskLosses:
        return TaskLosses(task_losses(model, batch), dict.fromkeys(TASKS, 1))

    def closure(model: nn.Module, batch: Batch) -> TaskLosses:
        losses = task_losses(model, batch)
        total = {name: 0 * (loss if connected else loss.detach()) for name, loss in losses.items()}
        return TaskLosses(total, dict.fromkeys(losses, 0))

    random = torch.get_rng_state()
    for each in (twin, method):
        torch.set_rng_state(random)
        each.step(counted, batch(0))
    before = snapshot(method)
    report = method.step(closure, *(batch(40 + i) for i in range(batches)))
    assert report.skipped is not None
    assert "label" in report.skipped
    assert all(loss != loss for loss in report.losses.values())
    assert set(report.weights.values()) == {0.0}
    assert_same(snapshot(method), before)
    assert_next_steps_agree(method, twin)


# The two halves of a step.


@pytest.mark.parametrize("name", KINDS)
@drops_gradients
def test_an_update_needs_a_backward_of_its_own(name: str) -> None:
    method = trained(name)
    before = snapshot(method)
    with pytest.raises(RuntimeError, match=SENTENCE):
        method.update()
    assert_same(snapshot(method), before)
    method.backward(task_losses, batch(40))
    with pytest.raises(ZeroDivisionError):
        method.backward(lambda model, batch: 1 / 0, batch(41))
    with pytest.raises(RuntimeError, match="`backward`"):
        method.update()


def memoryless() -> Net:
    """Return a network that a forward pass does not change, so that passes count by what the method remembers."""
    return make_net(seed=1, tasks=TASKS, width=4)


@pytest.mark.parametrize("name", METHODS)
@drops_gradients
def test_only_the_last_backward_before_an_update_counts(name: str) -> None:
    results = []
    for wasted in (0, 2):
        torch.manual_seed(1)
        method = build(name, memoryless())
        method.step(task_losses, batch(0))
        for i in range(wasted):
            method.backward(task_losses, batch(10 + i))
        report = method.backward(task_losses, batch(1))
        method.update()
        results.append(snapshot(method, report=vars(report)))
    assert_same(*results)


@pytest.mark.parametrize("name", ["EW", "FOOPS", "SIMS alternating"])
@drops_gradients
def test_a_backward_without_an_update_is_in_no_epoch(name: str) -> None:
    results = []
    for wasted in (False, True):
        torch.manual_seed(1)
        method = build(name, memoryless(), normalize=EpochWise())
        method.step(task_losses, batch(0))
        if wasted:
            method.backward(task_losses, batch(10))
        method.end_epoch()
        method.step(task_losses, batch(1))
        results.append(snapshot(method))
    assert_same(*results)


@pytest.mark.parametrize("name", TWO_COPIES)
def test_nothing_but_evaluation_is_done_with_a_lent_model(name: str) -> None:
    method, twin = trained(name), trained(name)
    assert isinstance(method, SIMS)
    state = snapshot(method)
    saved = method.state_dict()
    uses: list[Callable[[], Any]] = [
        lambda: method.step(task_losses, batch(40)),
        lambda: method.backward(task_losses, batch(40)),
        method.update,
        method.state_dict,
        lambda: method.load_state_dict(saved),
        lambda: method.challenger().__enter__(),
        lambda: method.random_iterate().__enter__(),
    ]
    for use in uses[: 6 if name == "FOOPS" else 7]:
        with method.challenger(), pytest.raises(RuntimeError, match=SENTENCE):
            use()
        assert_same(snapshot(method), state)
    assert_next_steps_agree(method, twin)


def test_an_update_inside_a_lent_model_can_be_made_up_for() -> None:
    method, twin = trained("SIMS"), trained("SIMS")
    assert isinstance(method, SIMS)
    random = torch.get_rng_state()
    method.backward(task_losses, batch(40))
    with method.challenger(), pytest.raises(RuntimeError):
        method.update()
    method.update()
    after = snapshot(method)
    torch.set_rng_state(random)
    twin.step(task_losses, batch(40))
    assert_same(after, snapshot(twin))


# Gradient scalers.

SCALED = ["SIMS", "SIMS joint", "SIMS alternating", "FOOPS", "EW", "UW", "FAMO"]


def scaled_run(name: str) -> AnyMethod:
    """Return a method in single precision that has taken some steps."""
    options: dict[str, Any] = {"normalize": None} if name == "UW" else {}
    return trained(name, steps=2, dtype=torch.float32, **options)


def steep(model: nn.Module, batch: Batch) -> Losses:
    """Return losses with a gradient so large that `huge` overflows, whatever the weights are."""
    losses = task_losses(model, batch)
    bias = model.get_parameter("heads.metres.bias")
    return {name: loss + 1e4 * (bias - bias.detach()).sum() for name, loss in losses.items()}


def huge() -> GradScaler:
    """Return a scaler that overflows once and then has a scale, a power of two, that does not."""
    return GradScaler("cpu", init_scale=2.0**127, backoff_factor=2.0**-100, growth_interval=1000)


@pytest.mark.parametrize("calls_update", [True, False])
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("name", SCALED)
def test_an_overflow_skips_all_copies_and_afterwards_the_scale_changes_nothing(
    name: str, batches: int, calls_update: bool
) -> None:
    method, twin = scaled_run(name), scaled_run(name)
    scaler = huge()
    before = snapshot(method)
    report = method.step(steep, *(batch(i, torch.float32) for i in range(batches)), scaler=scaler)
    assert report.skipped is not None
    assert "overflow" in report.skipped
    assert_same(snapshot(method), before)
    random = torch.get_rng_state()
    for step in range(3):
        if calls_update:
            scaler.update()
        report = method.step(steep, *(batch(i + 10 * step, torch.float32) for i in range(batches)), scaler=scaler)
        assert report.skipped is None
        assert scaler.get_scale() == 2.0**27
    after = snapshot(method)
    torch.set_rng_state(random)
    for step in range(3):
        twin.step(steep, *(batch(i + 10 * step, torch.float32) for i in range(batches)))
    assert_same(after, snapshot(twin))


@pytest.mark.parametrize("at", ["model", "challenger"])
@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "SIMS alternating", "FOOPS"])
def test_an_overflow_of_one_copy_skips_both(name: str, at: str) -> None:
    method, twin = scaled_run(name), scaled_run(name)
    before = snapshot(method)
    report = method.step(spoilt(method, kinked, at=at), batch(40, torch.float32), scaler=huge())
    assert report.skipped is not None
    assert_same(snapshot(method), before)
    random = torch.get_rng_state()
    method.step(task_losses, batch(41, torch.float32))
    after = snapshot(method)
    torch.set_rng_state(random)
    twin.step(task_losses, batch(41, torch.float32))
    assert_same(after, snapshot(twin))


@pytest.mark.parametrize("value", [float("nan"), -1.5])
@pytest.mark.parametrize("at", ["both", "challenger"])  # or, with one copy, the next point
@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "SIMS alternating", "FAMO"])
def test_a_failed_step_changes_no_scaler(name: str, at: str, value: float) -> None:
    method, twin = scaled_run(name), scaled_run(name)
    scalers = [GradScaler("cpu", init_scale=2.0**10, growth_interval=3) for _ in range(2)]
    random = torch.get_rng_state()
    for each, scaler in zip((method, twin), scalers, strict=True):
        torch.set_rng_state(random)
        each.step(task_losses, batch(0, torch.float32), scaler=scaler)
        scaler.update()
    before = snapshot(method, scaler=scalers[0].state_dict())
    with pytest.raises(ValueError, match="`pixels`"):
        method.step(spoilt(method, becomes(value), at), batch(40, torch.float32), scaler=scalers[0])
    assert_same(snapshot(method, scaler=scalers[0].state_dict()), before)
    random = torch.get_rng_state()
    results = []
    for each, scaler in zip((method, twin), scalers, strict=True):
        torch.set_rng_state(random)
        each.step(task_losses, batch(1, torch.float32), scaler=scaler)
        scaler.update()
        results.append(snapshot(each, scaler=scaler.state_dict()))
    assert_same(*results)


@pytest.mark.parametrize("connected", [True, False])
def test_a_batch_without_any_label_leaves_a_scaler_in_order(connected: bool) -> None:
    method = scaled_run("SIMS")
    scaler = GradScaler("cpu", init_scale=2.0**10)

    def closure(model: nn.Module, batch: Batch) -> TaskLosses:
        losses = task_losses(model, batch)
        total = {name: 0 * (loss if connected else loss.detach()) for name, loss in losses.items()}
        return TaskLosses(total, dict.fromkeys(losses, 0))

    assert method.step(closure, batch(0, torch.float32), scaler=scaler).skipped is not None
    scaler.update()
    assert method.step(task_losses, batch(1, torch.float32), scaler=scaler).skipped is None
    assert scaler.get_scale() == 2.0**10


def test_a_disabled_scaler_is_as_good_as_none() -> None:
    method, twin = trained("SIMS"), trained("SIMS")
    random = torch.get_rng_state()
    method.step(task_losses, batch(40), scaler=GradScaler("cpu", enabled=False))
    after = snapshot(method)
    torch.set_rng_state(random)
    twin.step(task_losses, batch(40))
    assert_same(after, snapshot(twin))


# Optimizers.


def test_an_optimizer_with_momentum_is_taken_back_too() -> None:
    make = partial(
        SIMS,
        order="alternating",
        outer=partial(SGD, lr=1e-3, momentum=0.9),
        inner=partial(Adam, lr=1e-2, amsgrad=True),
    )
    method, twin = make(network()), make(network())
    random = torch.get_rng_state()
    for each in (method, twin):
        torch.set_rng_state(random)
        for seed in range(3):
            each.step(task_losses, batch(seed))
    assert_refused(method, spoilt(method, kinked, at="model"), "`pixels`")
    assert_next_steps_agree(method, twin)
