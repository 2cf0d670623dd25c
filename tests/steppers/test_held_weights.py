"""Weights that are computed every few steps: in between a step is that of their sum, at the cost of one loss."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torchjd.aggregation as jd
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from helpers import twins
from helpers.ranks import Job, run_ranks
from helpers.support import (
    TASKS,
    Data,
    drops_gradients,
    flat,
    make_data,
    make_net,
    mean_losses,
    parameters,
    sgd,
    task_losses,
)
from torchsims import Aggregated
from torchsims.aggregations import DBMTL, IMTLG, MGDA, GradDrop, GradNorm, UPGrad, WeightedAggregation
from torchsims.methods import Method
from torchsims.transforms import Identity, Log, Transform

EVERY, STEPS, RATE = 3, 7, 0.02
TOLERANCE = 1e-10
METHODS: dict[str, tuple[Callable[[], WeightedAggregation], Callable[[Tensor], Tensor]]] = {
    "MGDA": (MGDA, twins.weights_of_the_shortest),
    "UPGrad": (UPGrad, jd.UPGrad().gramian_weighting),
    "IMTLG": (IMTLG, jd.IMTLG().gramian_weighting),
}
TRANSFORMS = {"losses": Identity(), "logarithms": Log()}
every_case = pytest.mark.parametrize(("name", "of"), [(n, t) for n in METHODS for t in TRANSFORMS])


def is_shared(name: str) -> bool:
    return not name.startswith("heads")


def naive(name: str, of: str, share: float) -> list[Tensor]:
    """Return the parameters after every step of a loop written straight from the definition, with another's weights."""
    model, psi = make_net(), TRANSFORMS[of]
    weigh = METHODS[name][1]
    shared = [p for n, p in model.named_parameters() if is_shared(n)]
    heads = [p for n, p in model.named_parameters() if not is_shared(n)]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    result = []
    for step in range(STEPS):
        losses = [psi(loss) for loss in task_losses(model, make_data(seed=step, share=share)).mean().values()]
        if step % EVERY == 0:
            rows = torch.stack([flat(torch.autograd.grad(loss, shared, retain_graph=True)) for loss in losses])
            w = weigh(rows @ rows.T)
        by_heads = torch.autograd.grad(losses, heads, retain_graph=True)
        by_shared = torch.autograd.grad((w * torch.stack(losses)).sum(), shared)
        for p, gradient in zip([*heads, *shared], [*by_heads, *by_shared], strict=True):
            p.grad = gradient
        optimizer.step()
        result.append(parameters(model))
    return result


def make(model: nn.Module, method: Any = None, **options: Any) -> Aggregated:
    return Aggregated(model, MGDA() if method is None else method, outer=sgd(RATE), **{"every": EVERY, **options})


def run(method: Aggregated, parts: Callable[[Data], Sequence[Data]], share: float) -> list[Tensor]:
    result = []
    for step in range(STEPS):
        method.step(task_losses, *parts(make_data(seed=step, share=share)))
        result.append(parameters(method.model))
    return result


def assert_same(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE)


@every_case
def test_it_is_the_sum_of_weighted_losses_in_between(name: str, of: str) -> None:
    expected = naive(name, of, share=0.7)
    for sizes in ([16], [5, 3, 7, 1]):
        method = make(make_net(), METHODS[name][0](), transform=TRANSFORMS[of])
        assert_same(run(method, lambda data, sizes=sizes: data.split(sizes), 0.7), expected)  # type: ignore[misc]


def on_rank(rank: int, name: str, of: str, wrapper: str, micro_batches: int) -> list[Tensor]:
    def parts(data: Data) -> list[Data]:
        mine = data.split([11, 5])[rank]
        size = math.ceil(len(mine.x) / micro_batches)
        return [mine[i * size : (i + 1) * size] for i in range(micro_batches)]

    model: nn.Module = make_net()
    if wrapper == "ddp":
        model = DistributedDataParallel(model)
    return run(make(model, METHODS[name][0](), transform=TRANSFORMS[of]), parts, 0.7)


RANKED = [("MGDA", "logarithms", "plain", 1), ("MGDA", "losses", "ddp", 2), ("UPGrad", "losses", "plain", 2)]


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, list[Any]]:
    jobs: dict[str, Job] = {str(job): (on_rank, job) for job in RANKED}
    return run_ranks(jobs)


@pytest.mark.parametrize("job", RANKED)
def test_two_ranks_with_unequal_shards_take_the_steps_of_one(two_ranks: dict[str, list[Any]], job: Any) -> None:
    expected = naive(job[0], job[1], 0.7)
    for result in two_ranks[str(job)]:
        assert not isinstance(result, str), result
        assert_same(result, expected)


@pytest.mark.parametrize(("sizes", "forward"), [([16], 1), ([9, 7], 2)])
def test_a_step_in_between_has_one_backward_pass_through_the_shared_layers(sizes: list[int], forward: int) -> None:
    model = make_net()
    passes = {"forward": 0, "backward": 0}

    def count(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        passes["forward"] += 1
        if output.requires_grad:
            output.register_hook(lambda _gradient: passes.update(backward=passes["backward"] + 1))  # type: ignore[no-untyped-call]

    model.stem.register_forward_hook(count)
    method = make(model)
    found = []
    for step in range(2 * EVERY):
        passes.update(forward=0, backward=0)
        method.step(task_losses, *make_data(seed=step).split(sizes))
        found.append((passes["forward"] / len(sizes), passes["backward"] / len(sizes)))
    period = [(1, 3)] + [(forward, 1)] * (EVERY - 1)
    assert found == period + period


def test_buffers_and_noise_see_every_batch_once() -> None:
    ends = []
    for every in (1, EVERY):  # the weights of a sum never change
        model = make_net(dropout=0.3, batch_norm=True)
        torch.manual_seed(5)
        method = make(model, jd.ConstantWeighting(torch.ones(3, dtype=torch.float64)), every=every)
        for step in range(4):
            method.step(task_losses, *make_data(seed=step).split([9, 7]))
        ends.append(torch.cat([parameters(model), flat(model.buffers())]))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)


def without(task: str, seed: int = 1) -> Data:
    data = make_data(seed=seed)
    data.known[:, TASKS.index(task)] = False
    return data


def test_a_task_without_labels_is_left_out_in_between_and_comes_back_with_its_weight() -> None:
    model = make_net()
    method = make(model)
    held = method.step(task_losses, make_data(seed=0)).weights
    before = parameters(model.heads["b"])
    report = method.step(task_losses, without("b"))
    assert report.weights == {**held, "b": 0.0}
    assert torch.equal(parameters(model.heads["b"]), before)
    assert all(p.grad is None for p in model.heads["b"].parameters())
    assert method.step(task_losses, make_data(seed=2)).weights == held


def test_a_task_that_had_no_label_yet_moves_its_head_only() -> None:
    model, other = make_net(), make_net()
    method = make(model)
    method.step(task_losses, without("b", seed=0))
    make(other).step(task_losses, without("b", seed=0))
    again = make(other)
    before = parameters(model.heads["b"])
    report = method.step(task_losses, make_data(seed=1))
    assert report.weights["b"] == 0
    assert not torch.equal(parameters(model.heads["b"]), before)
    assert again.step(task_losses, make_data(seed=1)).weights["b"] != 0  # one that computes its weights now


@drops_gradients
def test_steps_that_were_not_taken_do_not_count() -> None:
    model, other = make_net(), make_net()
    method, plain = make(model), make(other)
    nothing = make_data(seed=9)
    nothing.known[:] = False
    for seed in range(STEPS):
        assert method.step(task_losses, nothing).skipped is not None
        with pytest.raises(ValueError, match="should be finite"):
            method.step(mean_losses((1.0, math.nan, 1.0)), make_data())
        method.backward(task_losses, make_data(seed=30 + seed))  # and no update
        method.step(task_losses, make_data(seed=seed))
        plain.step(task_losses, make_data(seed=seed))
        assert torch.equal(parameters(model), parameters(other))


def test_a_scaled_loss_changes_no_bit() -> None:
    plain, scaled = make_net(torch.float32), make_net(torch.float32)
    scaler = GradScaler("cpu", init_scale=2.0**16)
    one, two = make(plain), make(scaled)
    for step in range(STEPS):
        data = make_data(seed=step, dtype=torch.float32)
        one.step(task_losses, data)
        two.step(task_losses, data, scaler=scaler)
        scaler.update()
    assert torch.equal(parameters(plain), parameters(scaled))


def test_an_overflow_in_between_skips_the_step() -> None:
    model = make_net(torch.float32)
    method, data = make(model), make_data(dtype=torch.float32)
    method.step(task_losses, data)
    before, scaler = parameters(model), GradScaler("cpu", init_scale=2.0**120)
    report = method.step(mean_losses((1e6, 1.0, 1.0)), data, scaler=scaler)
    assert report.skipped == "a scaled gradient overflowed"
    assert torch.equal(parameters(model), before)


@pytest.mark.parametrize("transform", [Identity(), Log()])
def test_logarithms_make_it_independent_of_units_to_the_last_bit(transform: Transform) -> None:
    ends = []
    for factors in ((1.0, 1.0, 1.0), (2.0**20, 1.0, 2.0**-30)):
        model = make_net()
        method = make(model, transform=transform)
        for step in range(5):
            method.step(mean_losses(factors), make_data(seed=step))
        ends.append(parameters(model))
    assert torch.equal(*ends) == isinstance(transform, Log)


def test_a_method_with_a_parameter_learns_when_its_weights_are_computed() -> None:
    weights = GradNorm(TASKS, dtype=torch.float64)
    method = make(make_net(), weights)
    logits = []
    for step in range(2 * EVERY):
        method.step(task_losses, make_data(seed=step))
        logits.append(weights.logits.tolist())
    assert logits[0] == logits[1] == logits[2] != logits[3] == logits[4] == logits[5]


def test_a_closure_that_bypasses_the_model_in_between_is_refused() -> None:
    method, other = make(make_net()), make_net()
    method.step(task_losses, make_data())
    with pytest.raises(ValueError, match="Found no gradient in any of its parameters"):
        method.step(lambda model, data: mean_losses()(other, data), make_data())


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (MGDA, {"every": 0}, "Parameter `every` should be a positive integer. Found `every = 0`."),
        (MGDA, {"every": 1.5}, "Parameter `every` should be a positive integer. Found `every = 1.5`."),
        (GradDrop, {}, "and for methods without weights. Found `every = 3` and `GradDrop`."),
        (DBMTL, {}, "and for methods without weights. Found `every = 3` and `DBMTL`."),
        (lambda: jd.TrimmedMean(trim_number=1), {}, "Found `every = 3` and `TrimmedMean`."),
        (MGDA, {"shared": "representation", "features": "trunk"}, "Found `every = 3` and `shared='representation'`."),
    ],
)
def test_what_has_no_weights_to_hold_is_refused(method: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="Parameter `every`") as caught:
        make(make_net(), method(), **options)
    assert message in str(caught.value)


def test_it_has_a_name_on_the_command_line() -> None:
    method = Method("mgda:every=4")
    assert method.passes == "1 + m every 4 steps, else 1 + 1"
    assert Method("mgda").passes == "1 + m"
    stepper = method.build(make_net(), TASKS, lr=1e-3)
    assert isinstance(stepper, Aggregated)
    assert stepper.state_dict().keys() - Method("mgda").build(make_net(), TASKS, lr=1e-3).state_dict().keys() == {
        "held"
    }
