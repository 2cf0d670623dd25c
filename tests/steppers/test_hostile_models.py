"""Models that share memory, change weights or hook gradients, closures that take steps: they work or are refused."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.small_runs import KINDS, AnyMethod, batch, differences, snapshot, task_losses, trained
from helpers.support import DIMENSION, make_data, make_net, make_sims, mean_losses, parameters, sgd
from torchsims import SIMS, Aggregated, Scalarized
from torchsims.aggregations import MGDA
from torchsims.scalarizations import EW, GLS

EVALUATIONS: list[Any] = ["sequential", "joint"]


def two_losses(model: nn.Module, x: Tensor) -> Tensor:
    found: Tensor = (model(x) - 1).square().mean(0)
    return found


# Hooks of parameters.


def halve(gradient: Tensor) -> Tensor:
    return gradient / 2


def clamp_gradient(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad.clamp_(-0.01, 0.01)


def hooked(evaluation: Any, post: bool, late: bool) -> tuple[list[float], Tensor, Tensor]:
    model = make_net()
    weight = model.trunk.weight

    def hook() -> Any:
        register: Any = weight.register_post_accumulate_grad_hook if post else weight.register_hook
        return register(clamp_gradient if post else halve)

    if not late:
        handle = hook()
    method = make_sims(model, evaluation=evaluation, perturb=0.1)
    merits = []
    for step in range(4):
        if late and step == 1:
            handle = hook()
        if step == 3:
            handle.remove()
        merits.append(method.step(mean_losses(), make_data(seed=step)).merit)
    with method.challenger():
        return merits, parameters(model), weight.detach().clone()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("post", [False, True])
def test_hooks_of_gradients_are_called_for_both_copies(post: bool, late: bool) -> None:
    sequential, joint = (hooked(evaluation, post, late) for evaluation in EVALUATIONS)
    assert sequential[0] == joint[0]
    assert torch.equal(sequential[1], joint[1])
    assert not torch.equal(sequential[2], hooked_not())


def hooked_not() -> Tensor:
    model = make_net()
    method = make_sims(model, perturb=0.1)
    for step in range(4):
        method.step(mean_losses(), make_data(seed=step))
    with method.challenger():
        return model.trunk.weight.detach().clone()


# Memory that is shared.


class Sharing(nn.Module):
    """A layer, and a tensor that shares memory with its weight, or with another buffer."""

    sums: Tensor
    row: Tensor

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer = nn.Linear(DIMENSION, 2, dtype=torch.float64)
        if how == "buffer":
            self.register_buffer("row", self.layer.weight.detach()[1])
        elif how == "frozen":
            self.layer.bias.requires_grad_(False)
            self.register_buffer("row", self.layer.bias.detach())
        elif how == "parameter":
            self.row = nn.Parameter(self.layer.weight.detach()[0, 1:])
        else:
            self.register_buffer("sums", torch.zeros(4, dtype=torch.float64))
            self.register_buffer("row", self.sums[1:3])

    def forward(self, x: Tensor) -> Tensor:
        if "sums" in dict(self.named_buffers()):
            self.sums += x.sum()
            return self.layer(x) + self.row  # type: ignore[no-any-return]
        return self.layer(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("how", ["buffer", "frozen", "parameter"])
def test_tensors_in_the_memory_of_a_parameter_are_refused_by_name(how: str, evaluation: Any) -> None:
    with pytest.raises(
        ValueError, match=r"Every parameter should have memory of its own\. Found `layer\.\w+` and `row`"
    ):
        make_sims(Sharing(how), evaluation=evaluation)
    Scalarized(Sharing(how), EW(), outer=sgd()).step(two_losses, make_data().x)


def test_buffers_may_share_memory() -> None:
    found = []
    for evaluation in EVALUATIONS:
        torch.manual_seed(0)
        model = Sharing("buffers")
        method = make_sims(model, evaluation=evaluation, perturb=0.1)
        merits = [method.step(two_losses, make_data(seed=seed).x).merit for seed in range(3)]
        found.append((merits, parameters(model), model.sums, method.state_dict()["challenger"]["sums"]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1:], found[1][1:], strict=True))
    assert found[0][2][0] == sum(make_data(seed=seed).x.sum() for seed in range(3))


def test_parameters_side_by_side_in_one_memory_are_allowed() -> None:
    memory = torch.randn(2 * DIMENSION + 2, dtype=torch.float64)
    model = nn.Linear(DIMENSION, 2, dtype=torch.float64)
    model.weight = nn.Parameter(memory[: 2 * DIMENSION].view(2, DIMENSION))
    model.bias = nn.Parameter(memory[2 * DIMENSION :])
    assert make_sims(model).step(two_losses, make_data().x).skipped is None


# Weights that a forward pass changes.


class Words(nn.Module):
    """An embedding whose rows are shortened in the forward pass, and a head."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = kind(10, 4, max_norm=0.5, dtype=torch.float64)
        self.head = nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, words: Tensor) -> Tensor:
        rows = self.table(words)
        return self.head(rows if rows.dim() == 2 else rows.mean(1))  # type: ignore[no-any-return]


WORDS = torch.tensor([[0, 1, 2], [3, 1, 0], [5, 5, 9]])


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_two_copies_refuse_weights_that_change_in_a_forward_pass(kind: Callable[..., nn.Module]) -> None:
    for evaluation in EVALUATIONS:
        with pytest.raises(ValueError, match=r"not change .* Found `max_norm = 0\.5` in module `table`"):
            make_sims(Words(kind), evaluation=evaluation)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_one_copy_restores_weights_that_a_failed_forward_pass_has_changed(kind: Callable[..., nn.Module]) -> None:
    for make in (
        lambda model: Scalarized(model, GLS(), outer=sgd()),
        lambda model: Aggregated(model, MGDA(), outer=sgd()),
    ):
        model = Words(kind)
        before = parameters(model)
        method: AnyMethod = make(model)
        with pytest.raises(ValueError, match="should be finite"):
            method.step(lambda model, words: two_losses(model, words) * torch.nan, WORDS)
        assert torch.equal(parameters(model), before)
        method.step(two_losses, WORDS)
        assert not torch.equal(parameters(model), before)


# Steps inside of closures.


@pytest.mark.parametrize("name", [*KINDS])
def test_a_closure_that_uses_a_stepper_is_refused(name: str) -> None:
    method, twin = trained(name), trained(name)
    saved = twin.state_dict()
    other = trained(name)
    uses: list[Callable[[], Any]] = [
        lambda: method.step(task_losses, batch(1)),
        lambda: method.backward(task_losses, batch(1)),
        method.update,
        method.end_epoch,
        method.state_dict,
        lambda: method.load_state_dict(saved),
        lambda: other.step(task_losses, batch(1)),
    ]
    if isinstance(method, SIMS):
        uses.append(lambda: method.challenger().__enter__())
    torch.manual_seed(3)
    before, others = snapshot(method), snapshot(other)
    message = re.escape("A closure should only compute losses. Found a call of a stepper inside of it.")
    for use in uses:

        def closure(model: nn.Module, data: Any, use: Callable[[], Any] = use) -> Any:
            use()
            return task_losses(model, data)

        with pytest.raises(RuntimeError, match=message):
            method.step(closure, batch(0))
        assert differences(snapshot(method), before) == []
        assert differences(snapshot(other), others) == []
    random = torch.get_rng_state()
    method.step(task_losses, batch(5))
    torch.set_rng_state(random)
    twin.step(task_losses, batch(5))
    assert differences(snapshot(method), snapshot(twin)) == []


def test_a_stepper_works_after_a_closure_that_failed() -> None:
    method = trained("SIMS")
    with pytest.raises(ZeroDivisionError):
        method.step(lambda model, data: 1 / 0, batch(0))
    assert isinstance(method, SIMS)
    with method.challenger() as model:
        assert model is method.model
