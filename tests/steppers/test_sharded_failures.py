"""With `fully_shard`, a closure that fails on one rank outside of the model's forward pass raises on all, at once."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from helpers.ranks import Job, run_ranks
from helpers.support import TASKS, Data, Net, make_data, make_net, make_sims, task_losses
from torchsims import SIMS

TIMEOUT = 30  # seconds; what waits as long has failed


class Model(nn.Module):
    """A container without parameters of its own, whose only part is sharded."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        return self.net(x)


def sharded(contained: bool) -> nn.Module:
    torch.manual_seed(0)
    net = make_net(dropout=0.2)
    mesh = init_device_mesh("cpu", (2,))
    for part in (net.trunk, net):
        fully_shard(part, mesh=mesh)
    return Model(net) if contained else net


def without_a_call() -> dict[str, Tensor]:
    return {task: torch.ones((), requires_grad=True) for task in TASKS}


def raises(rank: int, model: nn.Module, data: Data) -> Any:
    if rank == 1:
        raise OSError("disk gone")
    return task_losses(model, data)


def raises_between_two_calls(rank: int, model: nn.Module, data: Data) -> Any:
    task_losses(model, data)
    return raises(rank, model, data)


def raises_where_the_other_suppresses_errors(rank: int, model: nn.Module, data: Data) -> Any:
    try:
        return raises(rank, model, data)
    except RuntimeError:
        return without_a_call()


def calls_the_model_on_one_rank(rank: int, model: nn.Module, data: Data) -> Any:
    return task_losses(model, data) if rank == 0 else without_a_call()


def calls_the_model_more_often(rank: int, model: nn.Module, data: Data) -> Any:
    for _ in range(rank):
        task_losses(model, data)
    return task_losses(model, data)


FAILED = ("RuntimeError: No step was taken because rank 1 failed with OSError: disk gone", "OSError: disk gone")
FEWER, MORE = (
    "ValueError: The closure should call a sharded model equally often on every rank. "
    f"Found {than} calls here than on another rank."
    for than in ("fewer", "more")
)

# (closure, the call in which it does what it is named after, whether the sharded module is in a container)
CASES: dict[str, tuple[Any, int, bool, tuple[str, str]]] = {
    "first pass": (raises, 1, False, FAILED),
    "first pass, contained": (raises, 1, True, FAILED),
    "second micro-batch": (raises, 2, False, FAILED),
    "challenger": (raises, 3, False, FAILED),
    "pass with gradients": (raises, 8, False, FAILED),
    "between two calls": (raises_between_two_calls, 3, False, FAILED),
    "suppressed": (raises_where_the_other_suppresses_errors, 1, False, FAILED),
    "no call": (calls_the_model_on_one_rank, 1, False, (MORE, FEWER)),
    "two calls": (calls_the_model_more_often, 1, False, (FEWER, MORE)),
}


def everything(method: SIMS) -> list[Tensor]:
    tensors = [*method._theta, *method._challenger.tensors()]
    return [*(tensor.full_tensor().clone() for tensor in tensors), torch.get_rng_state()]  # type: ignore[attr-defined]


def fail(rank: int, closure: Any, bad_call: int, contained: bool, _: Any) -> list[Any]:
    """Return the error of this rank, whether nothing changed, and the merit of a good step afterwards."""
    model = sharded(contained)
    method = make_sims(model)
    data = make_data(seed=rank)
    method.step(task_losses, data)
    calls = 0

    def spoiled(model: nn.Module, batch: Data) -> Any:
        nonlocal calls
        calls += 1
        return closure(rank, model, batch) if calls == bad_call else task_losses(model, batch)

    def hooks() -> list[int]:
        return [len(module._forward_pre_hooks) for module in model.modules()]

    before, hooks_before, message = everything(method), hooks(), ""
    try:
        method.step(spoiled, *data.split([8, 8]))
    except (OSError, RuntimeError, ValueError) as error:
        message = f"{type(error).__name__}: {error}"
    unchanged = all(torch.equal(a, b) for a, b in zip(before, everything(method), strict=True))
    return [message, unchanged and hooks() == hooks_before, method.step(task_losses, data).merit]


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, list[Any]]:
    jobs: dict[str, Job] = {name: (fail, case) for name, case in CASES.items()}
    return run_ranks(jobs, timeout=TIMEOUT)


@pytest.mark.parametrize("name", CASES)
def test_all_ranks_raise_and_nothing_changes(two_ranks: dict[str, list[Any]], name: str) -> None:
    first, second = two_ranks[name]
    assert not isinstance(first, str), first
    assert not isinstance(second, str), second
    assert (first[0], second[0]) == CASES[name][-1]
    assert first[1]
    assert second[1]
    assert first[2] == second[2]
