"""Every public method keeps every promise; a method that is not in this table fails it."""

import io
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam

import torchsims
from helpers.methods import LOSS_LEVEL, SCALARIZED, STEPPERS, LossLevel, is_ordered, tolerance
from helpers.support import TASKS, Data, make_data, make_net, mean_losses, parameters, sgd, task_losses
from torchsims import Scalarized, Stepper, TaskLosses, aggregations, normalizers, scalarizations
from torchsims.scalarizations import RLW, Scalarization

every_method = pytest.mark.parametrize("name", STEPPERS)


def test_the_table_covers_every_public_method() -> None:
    public: list[Any] = [getattr(torchsims, name) for name in torchsims.__all__]
    steppers = {each.__name__ for each in public if isinstance(each, type) and issubclass(each, Stepper)}
    assert steppers == {"SIMS", "FOOPS", "Scalarized", "Aggregated", "Stepper"}
    assert set(scalarizations.__all__) - {"Scalarization", "from_torchjd"} <= set(STEPPERS)
    assert set(aggregations.__all__) - {"Aggregation", "WeightedAggregation", "from_torchjd"} <= set(STEPPERS)
    units = {type(STEPPERS[name](make_net()).normalizer).__name__ for name in STEPPERS}
    assert set(normalizers.__all__) - {"Normalizer"} <= units


class Point(nn.Module):
    """A point of the plane between two minima."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor([2.0, -0.5], dtype=torch.float64))


def quadratic_pair(model: Any) -> dict[str, Tensor]:
    """Two parabolas, in units that differ by a thousand; the Pareto set is the segment from (-1, -1) to (1, 1)."""
    return {
        "left": 1 + (model.theta + 1).square().sum(),
        "right": 1e3 * (1 + (model.theta - 1).square().sum()),
    }


TAU = {"FOOPS": 1e3}


def converging(name: str, model: nn.Module) -> Stepper[Any]:
    """Return a method with Adam, whose settings suit the quadratic pair."""
    adam, fast = (partial(Adam, lr=lr, betas=(0.9, 0.9)) for lr in (0.06, 0.09))
    two_copies = name.startswith(("SIMS", "FOOPS"))
    options: dict[str, Any] = {"inner": fast, "tau": TAU.get(name, 1.0)} if two_copies else {}
    return STEPPERS[name](model, ("left", "right"), outer=adam, **options)


@every_method
def test_it_converges_to_the_pareto_set_of_a_quadratic_pair(name: str) -> None:
    model = Point()
    method = converging(name, model)
    for step in range(240):
        method.step(quadratic_pair)
        if step % 60 == 59:
            method.end_epoch()
        if step in (140, 200):
            for group in [group for optimizer in method.optimizers for group in optimizer.param_groups]:
                group["lr"] /= 6
    x, y = model.theta.tolist()
    assert abs(x - y) < 0.02
    assert -1.05 < x < 1.05


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@every_method
def test_it_keeps_the_dtype_of_the_model(name: str, dtype: torch.dtype) -> None:
    model = make_net(dtype)
    before = parameters(model)
    method = STEPPERS[name](model)
    for _ in range(2):
        report = method.step(task_losses, make_data(dtype=dtype))
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert not torch.equal(parameters(model), before)
    assert all(isinstance(value, float) for value in [*report.losses.values(), *report.weights.values()])


@pytest.mark.parametrize("case", LOSS_LEVEL, ids=lambda case: case.name)
def test_it_runs_where_the_losses_are_and_never_asks_the_host(case: LossLevel) -> None:
    """On the meta device any read of a value, or a tensor left on another device, is an error."""
    method = case.make(TASKS).to("meta")
    for _ in range(2):
        losses = torch.ones(3, device="meta", dtype=torch.float64, requires_grad=True)
        objective = method(losses, torch.ones(3, device="meta", dtype=torch.bool))
        torch.autograd.backward(objective)
        assert objective.device.type == "meta"
        assert losses.grad is not None
        if method.observes:
            method.observe(losses.detach(), torch.ones(3, device="meta", dtype=torch.bool))
    for tensor in [*method.parameters(), *method.buffers()]:
        assert tensor.device.type == "meta"


@pytest.mark.parametrize("name", ["UW", "IMTLL", "LDCMTL"])
def test_parameters_of_a_method_are_made_where_and_as_asked(name: str) -> None:
    made = getattr(scalarizations, name)(["a", "b"], device="meta", dtype=torch.float64)
    assert {(p.device.type, p.dtype) for p in made.parameters()} == {("meta", torch.float64)}


class Renamed(nn.Module):
    """The same network with its tasks under other names, and so in another order."""

    NAMES = {"a": "z", "b": "y", "c": "x"}  # noqa: RUF012 - constant

    def __call__(self, model: nn.Module, data: Data) -> TaskLosses:
        losses: Any = task_losses(model, data)
        return TaskLosses(
            {self.NAMES[task]: total for task, total in losses.total.items()},
            {self.NAMES[task]: count for task, count in losses.count.items()},
        )


@pytest.mark.parametrize("name", [name for name in STEPPERS if not is_ordered(name)])
def test_the_order_of_the_tasks_does_not_matter(name: str) -> None:
    model, other = make_net(), make_net()
    method, renamed = STEPPERS[name](model), STEPPERS[name](other, ["y", "z", "x"])
    for seed in range(5):
        report = method.step(task_losses, make_data(seed=seed, share=0.3))
        mirror = renamed.step(Renamed(), make_data(seed=seed, share=0.3))
        if seed == 2:
            method.end_epoch()
            renamed.end_epoch()
    torch.testing.assert_close(parameters(model), parameters(other), rtol=0, atol=tolerance(name))
    expected = {task: mirror.weights[other_name] for task, other_name in Renamed.NAMES.items()}
    assert report.weights == pytest.approx(expected, rel=0, abs=1e3 * tolerance(name), nan_ok=True)


@every_method
def test_a_state_goes_through_a_file_and_on(name: str) -> None:
    def go_on(method: Stepper[Any], seeds: range) -> None:
        for seed in seeds:
            method.step(task_losses, make_data(seed=seed, share=0.5))
            if seed % 2:
                method.end_epoch()

    model = make_net()
    method = STEPPERS[name](model)
    go_on(method, range(5))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "method": method.state_dict()}, file)
    go_on(method, range(5, 10))

    again = make_net(seed=1)
    resumed = STEPPERS[name](again)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    again.load_state_dict(state["model"])
    resumed.load_state_dict(state["method"])
    go_on(resumed, range(5, 10))
    assert torch.equal(parameters(model), parameters(again))


@every_method
def test_micro_batches_are_one_large_step(name: str) -> None:
    model, other = make_net(), make_net()
    whole, parts = STEPPERS[name](model), STEPPERS[name](other)
    for seed in range(4):
        data = make_data(seed=seed, share=0.5)
        whole.step(task_losses, data)
        parts.step(task_losses, *data.split([5, 3, 7, 1]))
        whole.end_epoch()
        parts.end_epoch()
    torch.testing.assert_close(parameters(model), parameters(other), rtol=0, atol=tolerance(name))


@every_method
def test_an_unlabelled_task_has_no_weight_and_moves_no_other(name: str) -> None:
    """What the closure says of a task without labels makes no difference, and its head stays where it is."""
    ends = []
    for junk in (0.0, 7.0):
        model = make_net()
        head = parameters(model.heads["c"])
        method = STEPPERS[name](model)
        for seed in range(4):
            data = make_data(seed=seed)
            data.known[:, 2] = False
            data.y[:, 2] = junk
            report = method.step(task_losses, data)
            assert report.weights["c"] == 0
            method.end_epoch()
        assert torch.equal(parameters(model.heads["c"]), head)
        ends.append(parameters(model))
    assert torch.equal(*ends)


@every_method
def test_a_batch_without_any_label_is_not_a_step(name: str) -> None:
    model = make_net()
    method = STEPPERS[name](model)
    before = parameters(model)
    report = method.step(task_losses, make_data(share=0.0))
    assert report.skipped == "no task has a label in this batch"
    assert torch.equal(parameters(model), before)
    assert method.step(task_losses, make_data()).skipped is None


def test_random_weights_differ_between_seeds_and_not_between_runs() -> None:
    ends = []
    for seed in (0, 0, 1):
        model = make_net()
        method = Scalarized(model, RLW(seed), outer=sgd())
        for _ in range(3):
            method.step(task_losses, make_data())
        ends.append(parameters(model))
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_linear_methods_need_one_forward_pass_per_micro_batch() -> None:
    calls = 0

    def counted(model: nn.Module, data: Data) -> dict[str, Tensor]:
        nonlocal calls
        calls += 1
        return {task: out.square().mean() for task, out in model(data.x).items()}

    for name in SCALARIZED:
        model, whole = make_net(), make_net()
        method, expected = SCALARIZED[name](model), SCALARIZED[name](whole)
        assert isinstance(method, Scalarized)
        for step in range(3):
            calls = 0
            method.step(counted, *make_data(seed=step).split([4] * 4))
        passes = calls // 4 - int(method.scalarization.observes)
        assert passes == (1 if method.scalarization.linear else 2), name
        for step in range(3):
            expected.step(counted, make_data(seed=step))
        torch.testing.assert_close(parameters(model), parameters(whole), rtol=0, atol=1e-12)


class Moody(Scalarization):
    """A linear method that raises when it is asked for its coefficients beforehand."""

    linear: ClassVar[bool] = True

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        if not self.training:
            raise ArithmeticError("not now")
        return losses.sum(-1)


def test_a_method_that_raises_beforehand_is_left_in_training_mode() -> None:
    method = Scalarized(make_net(), Moody(), outer=sgd())
    parts = make_data().split([8, 8])
    method.step(mean_losses(), *parts)
    with pytest.raises(ArithmeticError):
        method.step(mean_losses(), *parts)
    assert method.scalarization.training
