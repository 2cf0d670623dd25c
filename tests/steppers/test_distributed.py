"""One process = two processes = micro-batches = unequal shards, in gradients and after ten steps."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam

from helpers.methods import SCALARIZED, STEPPERS
from helpers.ranks import Job, run_ranks
from helpers.support import Data, make_data, make_net, make_sims, mean_losses, sgd, task_losses
from torchsims import SIMS, Stepper
from torchsims.steppers import _replicas

STEPS = 10
EQUAL, UNEQUAL = (8, 8), (11, 5)

# (wrapper, options of SIMS): every way to run two ranks
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "DDP": ("ddp", {}),
    "DDP with bucket views": ("ddp views", {}),
    "DDP alternating": ("ddp", {"order": "alternating"}),
    "FSDP2": ("fsdp", {}),
    "plain sequential": ("plain", {}),
    "plain joint": ("plain", {"evaluation": "joint"}),
}


def wrap(model: nn.Module, wrapper: str) -> nn.Module:
    if wrapper.startswith("ddp"):
        return DistributedDataParallel(model, gradient_as_bucket_view="views" in wrapper)
    if wrapper == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for part in (model.trunk, model):
            fully_shard(part, mesh=mesh)  # type: ignore[arg-type]
    return model


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor().detach() if hasattr(tensor, "full_tensor") else tensor.detach()


def collect(method: Stepper[Any], model: nn.Module) -> dict[str, Tensor]:
    """Return the gradients and values of both copies."""
    found = {f"theta {name}": whole(p).clone() for name, p in model.named_parameters()}
    found |= {f"gradient {name}": whole(p.grad).clone() for name, p in model.named_parameters() if p.grad is not None}
    if isinstance(method, SIMS):
        found |= {f"challenger {i}": whole(p).clone() for i, p in enumerate(method._challenger.parameters)}
        found |= {
            f"challenger gradient {i}": whole(p.grad).clone()
            for i, p in enumerate(method._challenger.parameters)
            if p.grad is not None
        }
    return found


def train(make: Any, wrapper: str, parts: Any, share: float, model: nn.Module | None = None) -> list[Any]:
    """Return what is found after one step and after many, and the reports of the first and the last."""
    model = make_net() if model is None else model
    method = make(wrap(model, wrapper))
    reports = []
    found = []
    for step in range(STEPS):
        reports.append(method.step(task_losses, *parts(make_data(seed=step, share=share))))
        if step in (0, STEPS - 1):
            found.append(collect(method, model))
    return [found, [(r.losses, r.weights) for r in (reports[0], reports[-1])]]


def on_rank(rank: int, make: Any, wrapper: str, sizes: Sequence[int], micro_batches: int, share: float) -> list[Any]:
    def parts(data: Data) -> list[Data]:
        mine = data.split(sizes)[rank]
        size = math.ceil(len(mine.x) / micro_batches)
        return [mine[i * size : (i + 1) * size] for i in range(micro_batches)]

    return train(make, wrapper, parts, share)


class MakeSims:
    """How to make SIMS, in a form that other processes can be sent."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __call__(self, model: nn.Module) -> SIMS:
        return make_sims(model, perturb=0.05, prox=0.01, augment=0.05, **self.options)


class MakeScalarized:
    """How to make a loss-level method."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, model: nn.Module) -> Any:
        return SCALARIZED[self.name](model)


Case = tuple[Any, str, Sequence[int], int, float]  # (how to make the method, wrapper, shards, micro-batches, labels)
CASES: dict[str, Case] = {
    f"{way}, {sizes}, {micro_batches} micro-batches, {share:.0%} labelled": (
        MakeSims(**options),
        wrapper,
        sizes,
        micro_batches,
        share,
    )
    for way, (wrapper, options) in WAYS.items()
    for sizes, micro_batches, share in ((EQUAL, 1, 1.0), (UNEQUAL, 1, 0.2), (UNEQUAL, 2, 0.2))
} | {f"{name} in DDP": (MakeScalarized(name), "ddp", UNEQUAL, 2, 0.2) for name in SCALARIZED}

FAILURES = [
    ("ddp", 1, "early"),
    ("ddp", 3, "early"),
    ("ddp", 6, "late"),
    ("ddp", 8, "early"),
    ("plain", 2, "joint"),
    ("fsdp", 2, "late"),
]

UPDATES = [
    (wrapper, order, which)
    for wrapper in ("plain", "ddp", "fsdp")
    for order, which in (("simultaneous", 0), ("simultaneous", 1), ("alternating", 1))
]


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, list[Any]]:
    """Everything that runs on two ranks, in one start of two processes."""
    jobs: dict[str, Job] = {name: (on_rank, case) for name, case in CASES.items()}
    jobs |= {str(failure): (fails_on_the_second_rank, failure) for failure in FAILURES}
    jobs |= {str(update): (update_fails_on_the_second_rank, update) for update in UPDATES}
    jobs |= {"refusals": (refusals, ()), "missing head": (unlabelled_on_one_rank, ())}
    jobs |= {f"replicas of {name}": (train_replicas, (name,)) for name in REPLICAS}
    jobs |= {"other values": (other_values, ()), "other models": (other_models, ())}
    jobs |= {"sparse": (train_sparsely, ()), "clipped": (train_clipped, ("fsdp",))}
    return run_ranks(jobs)


def assert_same(found: list[Any], expected: list[Any]) -> None:
    (tensors, reports), (expected_tensors, expected_reports) = found, expected
    for mine, other in zip(tensors, expected_tensors, strict=True):
        assert mine.keys() == other.keys()
        for name in mine:
            torch.testing.assert_close(mine[name], other[name], rtol=0, atol=1e-12)
    for (losses, weights), (expected_losses, expected_weights) in zip(reports, expected_reports, strict=True):
        assert losses == pytest.approx(expected_losses, abs=1e-12, nan_ok=True)
        assert weights == pytest.approx(expected_weights, abs=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.2])
@pytest.mark.parametrize("options", [{}, {"evaluation": "joint"}, {"order": "alternating"}])
@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (7, 1, 3, 5)])
def test_micro_batches_take_the_step_of_the_whole_batch(
    share: float, options: dict[str, Any], sizes: Sequence[int]
) -> None:
    expected = train(MakeSims(**options), "plain", lambda data: [data], share)
    assert_same(train(MakeSims(**options), "plain", lambda data: data.split(sizes), share), expected)


@pytest.mark.parametrize("share", [1.0, 0.2])
@pytest.mark.parametrize("name", SCALARIZED)
def test_micro_batches_take_the_step_of_the_whole_batch_for_every_method(name: str, share: float) -> None:
    expected = train(MakeScalarized(name), "plain", lambda data: [data], share)
    assert_same(train(MakeScalarized(name), "plain", lambda data: data.split((7, 1, 3, 5)), share), expected)


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_take_the_step_of_one(two_ranks: dict[str, list[Any]], name: str) -> None:
    make, _, _, _, share = CASES[name]
    expected = train(make, "plain", lambda data: [data], share)
    for result in two_ranks[name]:
        assert not isinstance(result, str), result
        assert_same(result, expected)


def fails_on_the_second_rank(rank: int, wrapper: str, bad_pass: int, kind: str) -> list[Any]:
    """Return the error of this rank, whether anything changed, and what a good step gives afterwards."""
    torch.manual_seed(0)
    model = make_net(batch_norm=wrapper != "fsdp", dropout=0.2)
    method = make_sims(wrap(model, wrapper), evaluation="joint" if kind == "joint" else "sequential")
    data = make_data(seed=rank)
    method.step(task_losses, data)
    calls = 0

    def closure(module: nn.Module, batch: Data) -> Any:
        nonlocal calls
        calls += 1
        if rank == 1 and calls == bad_pass and kind != "late":
            raise OSError("disk gone")
        losses = task_losses(module, batch)
        if rank == 1 and calls == bad_pass:
            raise OSError("disk gone")
        return losses

    def everything() -> list[Tensor]:
        tensors = [*method._theta, *method._buffers.tensors(), *method._challenger.tensors()]
        return [*(whole(tensor).clone() for tensor in tensors), torch.get_rng_state()]

    before = everything()
    message = ""
    try:
        method.step(closure, *data.split([8, 8]))
    except (OSError, RuntimeError) as error:
        message = f"{type(error).__name__}: {error}"
    unchanged = all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))
    return [message, unchanged, method.step(task_losses, data).merit]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_closure_that_raises_on_one_rank_raises_on_all_and_changes_nothing(
    two_ranks: dict[str, list[Any]], failure: tuple[str, int, str]
) -> None:
    first, second = two_ranks[str(failure)]
    assert first[0] == "RuntimeError: No step was taken because rank 1 failed with OSError: disk gone"
    assert second[0] == "OSError: disk gone"
    assert first[1]
    assert second[1]
    assert first[2] == second[2]


def update_fails_on_the_second_rank(rank: int, wrapper: str, order: Any, which: int) -> list[Any]:
    """Return the error of this rank, whether anything changed, and what a good step gives afterwards."""
    adam = {"outer": partial(Adam, lr=0.01), "inner": partial(Adam, lr=0.02)}
    method = make_sims(wrap(make_net(), wrapper), order=order, perturb=0.1, **adam)
    data = make_data(seed=rank)
    method.step(task_losses, data)

    def everything() -> list[Tensor]:
        states = [value for each in method.optimizers for state in each.state.values() for value in state.values()]
        return [whole(tensor).clone() for tensor in (*method._theta, *method._challenger.tensors(), *states)]

    def fail(*_: Any) -> None:
        if rank == 1:
            raise OSError("disk gone")

    before, message = everything(), ""
    handle = method.optimizers[which].register_step_post_hook(fail)
    try:
        method.step(task_losses, data)
    except (OSError, RuntimeError) as error:
        message = f"{type(error).__name__}: {error}"
    handle.remove()
    unchanged = all(torch.equal(a, b) for a, b in zip(before, everything(), strict=True))
    return [message, unchanged, method.step(task_losses, data).merit]


@pytest.mark.parametrize("update", UPDATES)
def test_an_optimizer_that_raises_on_one_rank_takes_the_step_back_on_all(
    two_ranks: dict[str, list[Any]], update: tuple[str, str, int]
) -> None:
    first, second = two_ranks[str(update)]
    assert first[0] == "RuntimeError: No step was taken because rank 1 failed with OSError: disk gone"
    assert second[0] == "OSError: disk gone"
    assert first[1]
    assert second[1]
    assert first[2] == second[2]


def refusals(rank: int) -> list[str]:
    """Return the messages of what cannot work on several ranks."""
    messages = []
    inner = make_net()
    ddp = DistributedDataParallel(inner)

    def bypass(model: nn.Module, data: Data) -> Any:
        return task_losses(inner, data)

    def other_tasks(model: nn.Module, data: Data) -> Any:
        out = model(data.x)
        return {name: out["a"].square().mean() for name in (("p", "q") if rank else ("p", "r"))}

    def unconnected(model: nn.Module, data: Data) -> Any:
        losses: Any = task_losses(model, data)
        if rank == 0:
            losses = type(losses)({t: torch.zeros(()) for t in "abc"}, dict.fromkeys("abc", 0))
        return losses

    def apart() -> None:
        with ddp.no_sync():
            make_sims(ddp).step(task_losses, make_data())

    for attempt in (
        lambda: make_sims(ddp, evaluation="joint"),
        lambda: make_sims(ddp).step(bypass, make_data()),
        lambda: make_sims(make_net()).step(other_tasks, make_data()),
        lambda: make_sims(ddp).step(unconnected, make_data()),
        lambda: make_sims(make_net()).step(mean_losses((1.0, float("nan"), 1.0)), make_data()),
        lambda: make_sims(make_net()).step(task_losses, *make_data().split([8, 8][rank:])),
        lambda: make_sims(nn.Sequential(ddp, nn.Linear(1, 1))),
        lambda: make_sims(nn.Sequential(wrap(make_net(), "fsdp"), nn.Linear(1, 1))),
        apart,
    ):
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            messages.append(str(error))
    return messages


def test_what_cannot_work_on_several_ranks_is_refused(two_ranks: dict[str, list[Any]]) -> None:
    for joint, bypass, tasks, unconnected, nan, number, in_part, sharded_in_part, apart in two_ranks["refusals"]:
        assert "`evaluation` should be 'sequential'" in joint
        assert "should call the model it is given" in bypass
        assert "the same tasks on every rank" in tasks
        assert "should stay connected to the model" in unconnected
        assert nan == "The loss of task `b` should be finite. Found nan at the model."
        assert number.endswith("the same number of micro-batches. Found 1 on one and 2 on another.")
        for message in (in_part, sharded_in_part):
            assert "every trainable parameter of the model. Found `1.weight` outside" in message
        assert apart.startswith("A step should not be inside `no_sync` or `accelerator.accumulate`")


def unlabelled_on_one_rank(rank: int) -> list[Any]:
    """Train where one rank's part of the batch never has a label of one task, without its head in the graph."""
    model = make_net()
    method = make_sims(model)
    data = make_data()

    def closure(module: nn.Module, batch: Data) -> Any:
        losses: Any = task_losses(module, batch)
        if rank == 1:
            losses.total["c"] = torch.zeros((), dtype=torch.float64)
            losses.count["c"] = 0
        return losses

    for _ in range(5):
        report = method.step(closure, data.split(EQUAL)[rank])
    return [parameters_of(model), report.losses, report.weights]


def parameters_of(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def test_a_head_may_be_missing_on_a_rank_of_plain_modules(two_ranks: dict[str, list[Any]]) -> None:
    (first, losses, weights), (second, _, _) = two_ranks["missing head"]
    assert torch.equal(first, second)
    data = make_data()
    data.known[8:, 2] = False
    model = make_net()
    method = make_sims(model)
    for _ in range(5):
        report = method.step(task_losses, data)
    torch.testing.assert_close(first, parameters_of(model), rtol=0, atol=1e-12)
    assert losses == pytest.approx(report.losses, abs=1e-12)
    assert weights == pytest.approx(report.weights, abs=1e-12)


def train_sparsely(rank: int, ranks: int = 2) -> Tensor:
    """Train an embedding with sparse gradients on this rank's part of the words."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(10, 4, sparse=True), nn.Linear(4, 2)).double()
    method = make_sims(model)
    words = torch.tensor([[0, 1], [3, 1], [5, 9], [4, 2]]).chunk(ranks)[rank]
    for _ in range(3):
        method.step(lambda model, words: (model(words) - 1).square().mean(0), words)
    return parameters_of(model)


def test_sparse_gradients_of_plain_modules_are_reduced(two_ranks: dict[str, list[Any]]) -> None:
    for found in two_ranks["sparse"]:
        torch.testing.assert_close(found, train_sparsely(0, ranks=1), rtol=0, atol=1e-12)


def train_clipped(rank: int, wrapper: str, ranks: int = 2) -> list[Any]:
    """Train with clipped gradients of sharded parameters and of a method's own, which are not."""
    model = make_net()
    method = SCALARIZED["UW"](wrap(model, wrapper))
    norms = []
    for _ in range(3):
        method.backward(task_losses, make_data().split([16 // ranks] * ranks)[rank])
        norms.append(method.clip_grad_norm_(0.1).item())
        method.update()
    return [torch.cat([whole(p).reshape(-1) for p in model.parameters()]), norms]


def test_clipping_is_that_of_one_rank_where_parameters_are_sharded(two_ranks: dict[str, list[Any]]) -> None:
    expected, expected_norms = train_clipped(0, "plain", ranks=1)
    for found, norms in two_ranks["clipped"]:
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
        assert norms == pytest.approx(expected_norms, abs=1e-12)


REPLICAS = ["SIMS", "SIMS joint", "GLS", "MGDA"]


def train_replicas(rank: int, name: str, seed: int | None = None, ranks: int = 2) -> list[Tensor]:
    """Train modules that start with other values on every rank; return their values and their buffers at the start."""
    model = make_net(seed=rank if seed is None else seed, batch_norm=True, frozen=True)
    model.norm.running_mean.fill_(rank)  # type: ignore[union-attr, operator]
    method = STEPPERS[name](model.eval())  # with fixed batch statistics, which are those of a rank
    buffers = torch.cat([b.reshape(-1).double() for b in model.buffers()])
    for step in range(2):
        method.step(task_losses, make_data(seed=step).split([16 // ranks] * ranks)[rank])
    return [parameters_of(model), buffers]


@pytest.mark.parametrize("name", REPLICAS)
def test_modules_start_with_the_values_of_the_first_rank(two_ranks: dict[str, list[Any]], name: str) -> None:
    expected = train_replicas(0, name, seed=0, ranks=1)
    for found in two_ranks[f"replicas of {name}"]:
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


def message_of(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except ValueError as error:
        return str(error)
    return ""


def other_values(rank: int) -> list[str]:
    """Return the errors of steps after the values of one rank have changed: at the start, later, and by rounding."""
    _replicas.CHECK_EVERY = 3
    data = make_data().split(EQUAL)[rank]
    found = []
    changes: list[Callable[[Tensor], Tensor]] = [lambda p: p.mul_(-1), lambda p: p.mul_(1.0001), lambda p: p[0].add_(1)]
    for wrapper, change, (steps, challenger) in product(("plain", "ddp"), changes, ((0, False), (1, False), (1, True))):
        model = make_net()
        method = make_sims(wrap(model, wrapper), outer=sgd(1e-9), inner=sgd(1e-8))
        for _ in range(steps):
            method.step(task_losses, data)
        with torch.no_grad(), method.challenger() if challenger else nullcontext():
            if rank == 1:
                change(model.trunk.weight)
        found.append("".join(message_of(partial(method.step, task_losses, data)) for _ in range(3)))
    return found


def test_values_that_differ_between_ranks_are_noticed_at_the_next_check(two_ranks: dict[str, list[Any]]) -> None:
    for rank, found in enumerate(two_ranks["other values"]):
        assert not isinstance(found, str), found
        sentence = (
            "The parameters should be the same on every rank. Found other values of `trunk.weight`{} on rank {}: "
            "load the same state on every rank, and let the method alone change parameters."
        )
        changed = [sentence.format(of, 1 - rank) for of in ("", "", " of the challenger")]
        assert found == [*changed, "", "", "", *changed] * 2


def other_models(rank: int) -> list[str]:
    return [
        message_of(lambda: make_sims(make_net(width=8 - rank))),
        message_of(lambda: make_sims(make_net(batch_norm=bool(rank)))),
    ]


def test_other_models_on_other_ranks_are_errors(two_ranks: dict[str, list[Any]]) -> None:
    for found in two_ranks["other models"]:
        assert all(message.startswith("Every rank should have the same model. Found `") for message in found), found
