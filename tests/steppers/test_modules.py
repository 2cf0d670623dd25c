"""Modules and surroundings of every kind: what works with an ordinary loop works with a stepper."""

import pickle
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.methods import SCALARIZED
from helpers.small_runs import differences, snapshot
from helpers.support import drops_gradients, make_data, make_net, make_sims, mean_losses, parameters
from torchsims import Stepper

METHODS = [make_sims, partial(make_sims, evaluation="joint"), SCALARIZED["FAMO"]]


def test_the_default_dtype_does_not_matter() -> None:
    def trained(model: nn.Module) -> Tensor:
        make_sims(model).step(mean_losses(), make_data())
        SCALARIZED["GLS"](model).step(mean_losses(), make_data())
        return parameters(model)

    first, second = make_net(), make_net()
    torch.set_default_dtype(torch.float64)
    try:
        found = trained(first)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, trained(second))


@pytest.mark.parametrize("make", METHODS)
def test_a_step_needs_no_gradients_enabled_around_it(make: Callable[[nn.Module], Stepper[Any]]) -> None:
    first, second = make_net(), make_net()
    make(first).step(mean_losses(), make_data())
    with torch.no_grad():
        make(second).step(mean_losses(), make_data())
    assert torch.equal(parameters(first), parameters(second))


@pytest.mark.parametrize("make", METHODS)
def test_inference_mode_is_refused_by_name(make: Callable[[nn.Module], Stepper[Any]]) -> None:
    method = make(make_net())
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"outside `torch.inference_mode`\. Found"):
        method.step(mean_losses(), make_data())
    method.step(mean_losses(), make_data())


class Words(nn.Module):
    """An embedding with sparse gradients, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4, sparse=True)
        self.head = nn.Linear(4, 2)

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.head(self.table(words).mean(1))
        return out


class Waves(nn.Module):
    """Complex weights and real outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2, dtype=torch.complex128))

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.weight.dtype) @ self.weight).abs()


WORDS = torch.tensor([[0, 1, 2], [3, 1, 0], [5, 5, 9], [4, 2, 7]])


def two_losses(model: nn.Module, x: Tensor) -> Tensor:
    losses: Tensor = (model(x) - 1).square().mean(0) * torch.tensor([1.0, 1e3])
    return losses


def test_sparse_gradients_take_the_steps_of_dense_ones() -> None:
    models: list[Words] = []
    for sparse in (True, False):
        torch.manual_seed(0)
        models.append(Words().double())
        models[-1].table.sparse = sparse
        method = make_sims(models[-1], prox=0.1, perturb=0.1)
        for _ in range(3):
            method.step(two_losses, WORDS)
    torch.testing.assert_close(parameters(models[0]), parameters(models[1]), rtol=0, atol=1e-12)


def test_sparse_gradients_that_are_not_finite_are_refused_by_task_and_parameter() -> None:
    def closure(model: nn.Module, words: Tensor) -> list[Tensor]:
        first, second = two_losses(model, words)
        return [first, second + (0 * model.get_submodule("table")(words)).sum().sqrt()]

    with pytest.raises(ValueError, match=r"of task `1` in parameter `table\.weight`"):
        make_sims(Words()).step(closure, WORDS)


@drops_gradients
def test_the_distance_of_complex_parameters_is_real() -> None:
    torch.manual_seed(0)
    method = make_sims(Waves(), tau=1.0, prox=2.0)
    x = torch.randn(4, 3, dtype=torch.float64)
    together = method.backward(two_losses, x).merit
    with torch.no_grad():
        method._challenger.parameters[0].mul_(1j)  # the same moduli and losses, further away
    distance = 2 * method.model.get_parameter("weight").detach().abs().square().sum()
    assert method.backward(two_losses, x).merit == pytest.approx(together + float(distance))


class NoDoubles(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses tensors in double precision, as some devices do."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        assert not any(isinstance(leaf, Tensor) and leaf.dtype == torch.float64 for leaf in tree_leaves(result)), func
        return result


@pytest.mark.parametrize("make", METHODS)
def test_a_step_in_single_precision_makes_nothing_in_double(make: Callable[[nn.Module], Stepper[Any]]) -> None:
    method = make(make_net(dtype=torch.float32))
    with NoDoubles():  # type: ignore[no-untyped-call]
        method.step(mean_losses(), make_data(dtype=torch.float32))


@pytest.mark.parametrize("make", METHODS)
def test_a_method_goes_through_pickle_and_keeps_no_batch(make: Callable[[nn.Module], Stepper[Any]]) -> None:
    method, data = make(make_net(batch_norm=True)), make_data()
    batch = weakref.ref(data)
    method.step(mean_losses(), data)
    del data
    assert batch() is None
    twin = pickle.loads(pickle.dumps(method))
    for each in (method, twin):
        each.step(mean_losses(), make_data(seed=1))
    assert twin.model is not method.model
    assert torch.equal(parameters(method.model), parameters(twin.model))


@pytest.mark.parametrize("evaluation", ["sequential", "joint"])
@drops_gradients
def test_gradients_of_parameters_without_an_optimizer_do_not_pile_up(evaluation: Any) -> None:
    def heads_only(named: list[tuple[str, nn.Parameter]]) -> SGD:
        return SGD([p for name, p in named if name.startswith("heads")], lr=0.1)

    with pytest.warns(UserWarning, match="leaves out"):
        method = make_sims(make_net(), outer=heads_only, inner=heads_only, evaluation=evaluation)
    norms = []
    for _ in range(2):
        method.backward(mean_losses(), make_data())
        norms.append(
            [p.grad.norm().item() for p in (*method._theta, *method._challenger.parameters) if p.grad is not None]
        )
    assert norms[0] == norms[1]


class Averaged(nn.Module):
    """A module that replaces its buffers in the forward pass: an average, a count, and a table that grows."""

    average: Tensor
    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 3).double()
        self.register_buffer("average", torch.ones(3, dtype=torch.float64))
        self.register_buffer("table", torch.ones(0, dtype=torch.float64), persistent=False)
        self.register_buffer("mask", None, persistent=False)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out = self.linear(x) * self.average
        if self.training:
            self.average = 0.9 * self.average + 0.1 * out.detach().square().mean(0)
        if len(self.table) < len(x):
            self.table = torch.ones(len(x), dtype=x.dtype)
            self.mask = self.table > 0
        return dict(zip("abc", (out * self.table[: len(x), None]).unbind(1), strict=True))


class InPlace(Averaged):
    """The same with buffers that are overwritten, and a table that is large enough."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(100, dtype=torch.float64)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out = self.linear(x) * self.average.clone()
        if self.training:
            self.average.mul_(0.9).add_(0.1 * out.detach().square().mean(0))
        return dict(zip("abc", (out * self.table[: len(x), None]).unbind(1), strict=True))


BUFFER_METHODS: list[Any] = [
    *METHODS,
    partial(make_sims, order="alternating"),
    partial(make_sims, order="alternating", evaluation="joint"),
]


@pytest.mark.parametrize("make", BUFFER_METHODS)
@pytest.mark.parametrize("parts", [1, 2])
def test_buffers_that_a_forward_pass_replaces_are_those_of_their_copy(make: Any, parts: int) -> None:
    found: list[list[Tensor]] = []
    for network in (Averaged, InPlace):
        torch.manual_seed(0)
        model = network()
        options = {} if make is METHODS[-1] else {"perturb": 0.1, "keep_random_iterate": True}
        method = make(model, **options)
        for seed in range(4):
            method.step(mean_losses(), *make_data(seed=seed).split([16 // parts] * parts))
        found.append([parameters(model), model.average])
        for lend in (method.challenger, method.random_iterate) if options else ():
            with lend():
                found[-1] += [parameters(model), model.average.clone()]
        found[-1] += [parameters(model), model.average]
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", BUFFER_METHODS)
def test_a_failed_step_puts_replaced_buffers_back(make: Any) -> None:
    torch.manual_seed(0)
    model = Averaged()
    method = make(model)
    method.step(mean_losses(), make_data(4))
    before = snapshot(method, table=model.table)
    with pytest.raises(ValueError, match="should be finite"):
        method.step(mean_losses((1.0, 1.0, torch.inf)), make_data(8))
    assert differences(before, snapshot(method, table=model.table)) == []
