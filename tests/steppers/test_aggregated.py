"""Every gradient-level method takes the step of TorchJD on the Jacobian of the whole batch, however that is split."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torchjd.aggregation as jd
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel

from helpers.methods import GRADIENT_LEVEL, GRADIENTS, GradientLevel, every_gradient_level
from helpers.ranks import Job, run_ranks
from helpers.support import (
    TASKS,
    Data,
    Net,
    drops_gradients,
    flat,
    gradients,
    make_data,
    make_net,
    mean_losses,
    parameters,
    sgd,
    task_losses,
)
from helpers.twins import RATE, shortest_vector
from torchsims import Aggregated, TaskLosses
from torchsims.aggregations import (
    DBMTL,
    MGDA,
    CAGrad,
    FairGrad,
    GradDrop,
    GradNorm,
    NashMTL,
    PCGrad,
    WeightedAggregation,
    from_torchjd,
)
from torchsims.transforms import Log, Transform

STEPS = 3
SHARED = ("stem.weight", "stem.bias", "trunk.weight", "trunk.bias")


def make(model: nn.Module, case: GradientLevel | str, **options: Any) -> Aggregated:
    case = GRADIENTS[case] if isinstance(case, str) else case
    return Aggregated(model, case.make(TASKS), **{"outer": sgd(RATE), **options})


def found(model: nn.Module) -> dict[str, Tensor]:
    """Return the gradients by name, without what a wrapper puts before it."""
    return {n.removeprefix("module."): p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def naive(case: GradientLevel, transform: Transform | None = None, share: float = 1.0) -> list[dict[str, Tensor]]:
    """Return the gradients of every step of a loop written straight from the definition."""
    model, twin = make_net(), case.twin()
    optimizer = sgd(RATE)(model.named_parameters())
    names, ps = zip(*model.named_parameters(), strict=True)
    result = []
    for step in range(STEPS):
        losses = list(task_losses(model, make_data(seed=step, share=share)).mean().values())
        psi = transform or case.make(TASKS).transform
        of = losses if transform is None else [transform(loss) for loss in losses]
        shared = [model.get_parameter(name) for name in SHARED]
        jacobian = torch.stack([flat(torch.autograd.grad(x, shared, retain_graph=True)) for x in of])
        direction = twin(jacobian, torch.stack(losses).detach())
        start = 0
        for name, p in zip(names, ps, strict=True):
            if name in SHARED:
                p.grad = direction[start : start + p.numel()].view_as(p)
                start += p.numel()
            else:
                (p.grad,) = torch.autograd.grad(psi(losses[TASKS.index(name.split(".")[1])]), p, retain_graph=True)
        result.append(found(model))
        optimizer.step()
    return result


def run(method: Aggregated, parts: Callable[[Data], Sequence[Data]], share: float = 1.0) -> list[dict[str, Tensor]]:
    result = []
    for step in range(STEPS):
        method.step(task_losses, *parts(make_data(seed=step, share=share)))
        result.append(found(method.model))
    return result


def assert_same(mine: list[dict[str, Tensor]], other: list[dict[str, Tensor]], tolerance: float) -> None:
    for a, b in zip(mine, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            torch.testing.assert_close(a[name], b[name], rtol=0, atol=tolerance)


@every_gradient_level
def test_it_is_torchjd_on_the_jacobian_of_the_whole_batch(case: GradientLevel) -> None:
    assert_same(run(make(make_net(), case), lambda data: [data]), naive(case), case.tolerance)


@every_gradient_level
def test_micro_batches_and_batched_passes_make_no_difference(case: GradientLevel) -> None:
    expected = naive(case, share=0.6)
    assert_same(run(make(make_net(), case), lambda data: data.split([5, 3, 7, 1]), 0.6), expected, case.tolerance)
    assert_same(run(make(make_net(), case, chunk=2), lambda data: data.split([9, 7]), 0.6), expected, case.tolerance)


@pytest.mark.parametrize("method", [NashMTL, FairGrad, partial(FairGrad, 2.0)])
@pytest.mark.parametrize("scales", [(100.0, 1.0, 1.0), (1e4, 1.0, 1e-2)])
def test_micro_batches_make_no_difference_for_losses_of_very_different_sizes(
    method: Callable[[], WeightedAggregation], scales: Sequence[float]
) -> None:
    def closure(model: nn.Module, data: Data) -> TaskLosses:
        losses: Any = task_losses(model, data)
        return TaskLosses({t: losses.total[t] * scales[i] for i, t in enumerate(TASKS)}, losses.count)

    for seed in range(4):
        data, directions = make_data(seed=seed), []
        for parts in ([16], [5, 3, 7, 1]):
            model = make_net(seed=seed)
            Aggregated(model, method(), outer=sgd(RATE)).backward(closure, *data.split(parts))
            directions.append(flat(model.get_parameter(name).grad for name in SHARED))
        assert (directions[0] - directions[1]).norm() < 1e-9 * directions[0].norm()


def on_rank(rank: int, name: str, wrapper: str, sizes: Sequence[int], micro_batches: int) -> list[dict[str, Tensor]]:
    def parts(data: Data) -> list[Data]:
        mine = data.split(sizes)[rank]
        size = math.ceil(len(mine.x) / micro_batches)
        return [mine[i * size : (i + 1) * size] for i in range(micro_batches)]

    model: nn.Module = make_net()
    if wrapper == "ddp":
        model = DistributedDataParallel(model)
    return run(make(model, name), parts, 0.6)


def at_representation(rank: int, name: str, micro_batches: int) -> list[dict[str, Tensor]]:
    def parts(data: Data) -> list[Data]:
        mine = data.split([9, 7])[rank]
        return [mine] if micro_batches == 1 else mine.split([6, len(mine.x) - 6])

    return run(make(make_net(), name, shared="representation", features="trunk"), parts, 0.6)


def missing_head(rank: int) -> Tensor:
    """Train where one rank never sees the graph of a task."""
    model = make_net()
    method = make(model, "MGDA")

    def closure(module: nn.Module, batch: Data) -> Any:
        losses: Any = task_losses(module, batch)
        if rank == 1:
            losses.total["c"], losses.count["c"] = torch.zeros((), dtype=torch.float64), 0
        return losses

    for _ in range(3):
        method.step(closure, make_data().split([8, 8])[rank])
    return parameters(model)


def refusals(rank: int) -> list[str]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    messages = []
    sharded = make_net()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (2,)))

    def fails(model: nn.Module, data: Data) -> Any:
        if rank == 1:
            raise OSError("disk gone")
        return task_losses(model, data)

    model = make_net()
    before = parameters(model)
    method = make(model, "PCGrad")
    for attempt in (lambda: make(sharded, "MGDA"), lambda: method.step(fails, make_data())):
        try:
            attempt()
        except (ValueError, RuntimeError, OSError) as error:
            messages.append(str(error))
    return [*messages, str(torch.equal(before, parameters(model)))]


UNEQUAL = (11, 5)
# Options of a method change nothing in how gradients are reduced: inside a wrapper one case per method is enough.
RANKED = [
    (case.name, wrapper)
    for case in GRADIENT_LEVEL
    for wrapper in ("plain", "ddp")
    if wrapper == "plain" or not case.option
]


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, list[Any]]:
    jobs: dict[str, Job] = {
        f"{name} {wrapper}": (on_rank, (name, wrapper, UNEQUAL, 1 if wrapper == "plain" else 2))
        for name, wrapper in RANKED
    }
    jobs |= {f"representation {n}": (at_representation, ("MGDA", n)) for n in (1, 2)}
    return run_ranks(jobs | {"missing head": (missing_head, ()), "refusals": (refusals, ())})


@pytest.mark.parametrize(("name", "wrapper"), RANKED)
def test_two_ranks_with_unequal_shards_take_the_step_of_one(
    two_ranks: dict[str, list[Any]], name: str, wrapper: str
) -> None:
    expected = naive(GRADIENTS[name], share=0.6)
    for result in two_ranks[f"{name} {wrapper}"]:
        assert not isinstance(result, str), result
        assert_same(result, expected, GRADIENTS[name].tolerance)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_two_ranks_agree_at_the_representation(two_ranks: dict[str, list[Any]], micro_batches: int) -> None:
    method = make(make_net(), "MGDA", shared="representation", features="trunk")
    expected = run(method, lambda data: [data], 0.6)
    for result in two_ranks[f"representation {micro_batches}"]:
        assert not isinstance(result, str), result
        assert_same(result, expected, 1e-12)


def test_a_head_may_be_missing_on_a_rank(two_ranks: dict[str, list[Any]]) -> None:
    data = make_data()
    data.known[8:, 2] = False
    model = make_net()
    method = make(model, "MGDA")
    for _ in range(3):
        method.step(task_losses, data)
    for result in two_ranks["missing head"]:
        torch.testing.assert_close(result, parameters(model), rtol=0, atol=1e-12)


def test_what_cannot_work_on_several_ranks_is_refused(two_ranks: dict[str, list[Any]]) -> None:
    for rank, (sharded, failed, unchanged) in enumerate(two_ranks["refusals"]):
        assert "which `fully_shard` does not reduce over the ranks" in sharded
        assert failed == ("disk gone" if rank else "No step was taken because rank 1 failed with OSError: disk gone")
        assert unchanged == "True"


@every_gradient_level
def test_a_scaled_loss_changes_nothing_after_unscaling(case: GradientLevel) -> None:
    """Not one bit, since the scale is a power of two; weightings whose results depend on size included."""
    plain, scaled = make_net(torch.float32), make_net(torch.float32)
    scaler = GradScaler("cpu", init_scale=2.0**16)
    one, two = make(plain, case), make(scaled, case)
    for step in range(3):
        data = make_data(seed=step, dtype=torch.float32)
        one.step(task_losses, data)
        two.step(task_losses, data, scaler=scaler)
        scaler.update()
    assert torch.equal(parameters(plain), parameters(scaled))


@pytest.mark.parametrize("options", [{}, {"shared": "representation", "features": "trunk"}])
def test_an_overflow_skips_the_step_and_lowers_the_scale(options: dict[str, Any]) -> None:
    model = make_net(torch.float32)
    before = parameters(model)
    method = make(model, "MGDA", **options)
    scaler = GradScaler("cpu", init_scale=2.0**120)
    report = method.step(mean_losses((1e6, 1.0, 1.0)), make_data(dtype=torch.float32), scaler=scaler)
    scaler.update()
    assert report.skipped == "a scaled gradient overflowed"
    assert torch.equal(parameters(model), before)
    assert scaler.get_scale() == 2.0**119


@pytest.mark.parametrize("scales", [(2.0**20, 1.0, 2.0**-30), (2.0**-90, 2.0**60, 1.0)])
@every_gradient_level
def test_log_versions_do_not_depend_on_units_to_the_last_bit(case: GradientLevel, scales: Sequence[float]) -> None:
    if "loss" in case.name:
        return  # these divide by the loss themselves, of which the next test is about
    ends = []
    for factors in ((1.0, 1.0, 1.0), scales):
        model = make_net()
        method = make(model, case, transform=Log())
        for step in range(3):
            method.step(mean_losses(factors), make_data(seed=step))
        ends.append(parameters(model))
    assert torch.equal(*ends)


@pytest.mark.parametrize("name", ["MGDA-loss", "DBMTL"])
@drops_gradients
def test_methods_that_divide_by_losses_need_no_log(name: str) -> None:
    ends = []
    for factors in ((1.0, 1.0, 1.0), (2.0**20, 1.0, 2.0**-30)):
        model = make_net()
        method = make(model, name)
        for step in range(3):
            method.backward(mean_losses(factors), make_data(seed=step))
            ends.append(torch.cat([found(model)[name].reshape(-1) for name in SHARED]))
    assert torch.equal(ends[0], ends[3])


@every_gradient_level
def test_log_versions_are_those_of_the_gradients_of_log_losses(case: GradientLevel) -> None:
    if case.method in ("DBMTL", "GradNorm") or "loss" in case.name:
        return  # their twins divide by the losses themselves
    method = make(make_net(), case, transform=Log())
    assert_same(run(method, lambda data: data.split([9, 7]), 0.6), naive(case, Log(), 0.6), case.tolerance)


@every_gradient_level
def test_a_task_without_labels_is_left_out_and_its_head_stays(case: GradientLevel) -> None:
    if case.method == "from_torchjd" and "aggregator" in case.name:
        return  # trims a task on each side, of three
    model = make_net()
    method = make(model, case)
    method.step(task_losses, make_data(seed=0))
    before = parameters(model.heads["b"])
    data = make_data(seed=1)
    data.known[:, 1] = False
    report = method.step(task_losses, data)
    assert report.weights["b"] == 0
    assert math.isnan(report.losses["b"])
    assert torch.equal(parameters(model.heads["b"]), before)
    assert not any(p.grad is not None for p in model.heads["b"].parameters())
    assert method.step(task_losses, make_data(seed=2)).weights["b"] != 0


@pytest.mark.parametrize("name", ["MGDA", "UPGrad", "FairGrad", "AlignedMTL", "IMTLG", "ConFIG", "CAGrad"])
def test_the_others_move_as_if_the_task_without_labels_did_not_exist(name: str) -> None:
    data = make_data()
    data.known[:, 2] = False

    def two(model: nn.Module, data: Data) -> TaskLosses:
        losses: Any = task_losses(model, data)
        return TaskLosses({t: losses.total[t] for t in "ab"}, {t: losses.count[t] for t in "ab"})

    ends = []
    for closure in (task_losses, two):
        model = make_net()
        make(model, name).step(closure, data)
        ends.append(parameters(model))
    assert torch.equal(*ends)


def test_the_shared_parameters_are_those_that_two_tasks_reach() -> None:
    model = make_net()
    method = make(model, "MGDA")
    method.step(task_losses, make_data())
    assert method.state_dict()["shared"] == sorted(SHARED)
    stacked = make(make_net(), "MGDA", shared=["stem", "trunk.weight"])
    stacked.step(task_losses, make_data())
    assert stacked.state_dict()["shared"] == ["stem.bias", "stem.weight", "trunk.weight"]


@drops_gradients
def test_what_is_shared_once_stays_shared() -> None:
    """A batch whose closure leaves out the graphs of all but one task is no reason to call the trunk its head."""
    model = make_net()
    method = make(model, "NashMTL")
    method.step(task_losses, make_data())
    data = make_data()
    data.known[:, 1:] = False

    def closure(model: nn.Module, data: Data) -> Any:
        losses: Any = task_losses(model, data)
        for task in "bc":
            losses.total[task] = torch.zeros((), dtype=torch.float64)
        return losses

    ends = []
    for each in (task_losses, closure):
        method.backward(each, data)
        ends.append(gradients(model))
    assert torch.equal(*ends)


def test_parameters_that_are_not_shared_follow_the_sum_of_their_tasks() -> None:
    model, plain = make_net(), make_net()
    make(model, "MGDA", shared=["stem"]).backward(task_losses, make_data())
    sum(task_losses(plain, make_data()).mean().values()).backward()  # type: ignore[union-attr]
    torch.testing.assert_close(model.trunk.weight.grad, plain.trunk.weight.grad, rtol=0, atol=1e-12)


def test_gradients_at_the_representation_are_those_of_the_upper_bound() -> None:
    """MGDA-UB, written by hand: the min-norm point of the gradients by the representation, pulled back at once."""
    model, other = make_net(), make_net()
    make(model, "MGDA", shared="representation", features=model.trunk).backward(mean_losses(), make_data())
    z = other.trunk(other.stem(make_data().x).tanh())
    cut = z.detach().requires_grad_()
    losses = [
        (other.heads[task](cut.tanh()).squeeze(-1) - make_data().y[:, i]).square().mean()
        for i, task in enumerate(TASKS)
    ]
    rows = torch.stack([torch.autograd.grad(loss, cut, retain_graph=True)[0].reshape(-1) for loss in losses])
    z.backward(shortest_vector(rows).view_as(z))
    for name in SHARED:
        torch.testing.assert_close(model.get_parameter(name).grad, other.get_parameter(name).grad, rtol=0, atol=1e-12)
    (expected,) = torch.autograd.grad(losses[1], other.get_parameter("heads.b.weight"))
    torch.testing.assert_close(model.heads["b"].weight.grad, expected, rtol=0, atol=1e-12)


def test_micro_batches_at_the_representation_see_the_same_noise_and_buffers() -> None:
    def build() -> Net:
        return make_net(dropout=0.3, batch_norm=True)

    ends, buffers = [], []
    for options in ({}, {"shared": "representation", "features": "stem"}):
        model = build()
        torch.manual_seed(5)
        # With one task the direction is its gradient, wherever it is taken.
        method = make(model, "MGDA", **options)
        for step in range(2):
            method.step(
                lambda model, data: {"a": model(data.x)["a"].square().mean()}, *make_data(seed=step).split([9, 7])
            )
        ends.append(parameters(model))
        buffers.append(flat(model.buffers()))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)
    assert torch.equal(*buffers)


def test_a_failed_step_changes_nothing() -> None:
    for case in GRADIENT_LEVEL:
        model = make_net(dropout=0.2, batch_norm=True)
        method = make(model, case)
        method.step(task_losses, make_data())
        state, values = str(method.state_dict()), torch.cat([parameters(model), flat(model.buffers())])
        noise = torch.get_rng_state()
        for scale in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="The loss of task `b` should be finite"):
                method.step(mean_losses((1.0, scale, 1.0)), make_data())
        assert str(method.state_dict()) == state, case.name
        assert torch.equal(torch.cat([parameters(model), flat(model.buffers())]), values)
        assert torch.equal(torch.get_rng_state(), noise)


@drops_gradients
def test_gradients_without_an_update_are_taken_back_in_the_method_too() -> None:
    for case in GRADIENT_LEVEL:
        one, two = make_net(), make_net()
        method, again = make(one, case), make(two, case)
        again.backward(task_losses, make_data(seed=9))
        for seed in range(2):
            method.step(task_losses, make_data(seed=seed))
            again.step(task_losses, make_data(seed=seed))
        assert torch.equal(parameters(one), parameters(two)), case.name


def test_a_gradient_that_is_not_finite_names_its_task() -> None:
    def closure(model: nn.Module, data: Data) -> dict[str, Tensor]:
        out = model(data.x)
        return {"a": out["a"].square().mean(), "b": 1 + (out["b"] - out["b"].detach()).abs().sqrt().mean()}

    with pytest.raises(ValueError, match=r"should be finite. Found some that are not: of task `b` in parameter"):
        make(make_net(), "MGDA").step(closure, make_data())


def test_a_direction_that_is_not_finite_is_refused() -> None:
    weights = torch.tensor([1.0, torch.inf, 1.0], dtype=torch.float64)
    model = make_net()
    before = parameters(model)
    with pytest.raises(ValueError, match=r"The direction of `Constant` should be finite"):
        Aggregated(model, jd.Constant(weights), outer=sgd()).step(task_losses, make_data())
    assert torch.equal(parameters(model), before)


def test_a_closure_that_bypasses_the_model_is_refused() -> None:
    other = make_net()
    with pytest.raises(ValueError, match="Found no gradient in any of its parameters"):
        make(make_net(), "MGDA").step(lambda model, data: mean_losses()(other, data), make_data())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk": 0}, "Parameter `chunk` should be positive. Found `chunk = 0`."),
        ({"shared": ["nowhere"]}, "Found `nowhere`, which names none."),
        ({"shared": "trunk"}, "should be a list of names, or 'representation'"),
        ({"shared": "representation"}, "should be given together"),
        ({"features": "trunk"}, "should be given together"),
        ({"shared": "representation", "features": "nowhere"}, "should name a module of the model"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(make_net(), "MGDA", **options)


def test_what_a_representation_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="Found `GradDrop`, which needs the gradients themselves"):
        make(make_net(), "GradDrop", shared="representation", features="trunk")
    with pytest.raises(ValueError, match="Found 2 parameters behind it that several tasks use"):
        make(make_net(), "MGDA", shared="representation", features="stem").step(task_losses, make_data())
    method = make(make_net(), "MGDA", shared="representation", features="drop")
    with pytest.raises(ValueError, match="should be called by the closure"):
        method.step(lambda model, data: {"a": model.stem(data.x).mean()}, make_data())
    with pytest.raises(TypeError, match="Found int"):
        Aggregated(make_net(), 3, outer=sgd())


def test_a_method_of_torchjd_is_taken_as_it_is() -> None:
    one, two = make_net(), make_net()
    methods = [Aggregated(one, jd.DualProj(), outer=sgd()), Aggregated(two, from_torchjd(jd.DualProj()), outer=sgd())]
    for method in methods:
        method.step(task_losses, make_data())
    assert torch.equal(parameters(one), parameters(two))


def test_clipping_and_sparse_gradients_work() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(10, 4, sparse=True), nn.Linear(4, 2)).double()
    method = make(model, "MGDA")
    method.backward(lambda model, words: (model(words) - 1).square().mean(0), torch.tensor([[0, 1], [3, 1]]))
    norm = method.clip_grad_norm_(1e-3)
    assert norm > 1e-3
    assert gradients(model).norm() == pytest.approx(1e-3, rel=1e-2)
    method.update()


def test_half_precision_is_aggregated_in_single() -> None:
    model = make_net(torch.bfloat16)
    for case in GRADIENT_LEVEL:
        method = Aggregated(model, case.make(TASKS), outer=sgd(1e-3))
        report = method.step(task_losses, make_data(dtype=torch.bfloat16))
        assert report.skipped is None
        assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.bfloat16}


def test_gradnorm_has_its_parameter_in_the_optimizer() -> None:
    weights = GradNorm(TASKS)
    method = Aggregated(make_net(), weights, outer=partial(torch.optim.Adam, lr=1e-2))
    method.step(task_losses, make_data())
    assert weights.logits.abs().min() > 0


def test_reports_hold_the_weights_of_the_losses() -> None:
    model, plain = make_net(), make_net()
    report = Aggregated(model, CAGrad(), outer=sgd(), transform=Log()).step(task_losses, make_data())
    losses = task_losses(plain, make_data()).mean()
    sum(report.weights[t] * losses[t] for t in TASKS).backward()  # type: ignore[union-attr]
    for name in SHARED:
        torch.testing.assert_close(model.get_parameter(name).grad, plain.get_parameter(name).grad, rtol=0, atol=1e-12)


def test_random_methods_leave_the_global_generator_alone() -> None:
    for method in (PCGrad(), GradDrop(), MGDA(), DBMTL()):
        stepper = Aggregated(make_net(), method, outer=sgd())
        before = torch.get_rng_state()
        stepper.step(task_losses, make_data())
        assert torch.equal(torch.get_rng_state(), before)
