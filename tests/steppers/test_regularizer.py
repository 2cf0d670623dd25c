"""A term that belongs to no task is added to every copy's gradient once per step, whatever is done to the losses."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrizations
from torch.optim import SGD

from helpers.methods import STEPPERS, tolerance
from helpers.ranks import Job, run_ranks
from helpers.support import Net, flat, make_data, make_net, make_sims, mean_losses, parameters, task_losses
from torchsims import SIMS, Stepper

DECAY = 0.3
FAMILIES = ["SIMS", "SIMS joint", "SIMS alternating", "FOOPS", "EW", "LogMerit", "UW", "MGDA", "GradDrop"]


def half_square(model: nn.Module) -> Tensor:
    return 0.5 * DECAY * torch.stack([p.square().sum() for p in model.parameters()]).sum()


def quartic(model: nn.Module) -> Tensor:
    """Return a nonlinear term that leaves out some parameters."""
    assert isinstance(model, Net)  # also inside of a wrapper
    some: Any = (model.stem.weight, model.heads["a"].bias)
    return torch.stack([p.pow(4).sum() for p in some]).sum()


def sgd_with_decay(named: Sequence[tuple[str, nn.Parameter]], lr: float) -> SGD:
    """Make an optimizer that decays the parameters of the model, and none of a method."""
    own = ("scalarization.", "aggregation.")
    groups = [{"params": [p], "weight_decay": 0.0 if name.startswith(own) else DECAY} for name, p in named]
    return SGD(groups, lr=lr)


def copies(method: Stepper[Any]) -> list[list[nn.Parameter]]:
    """Return the parameters of every copy."""
    theirs = [method._challenger.parameters] if isinstance(method, SIMS) else []
    return [list(method.model.parameters()), *theirs]


def values(method: Stepper[Any]) -> Tensor:
    return torch.cat([flat(copy) for copy in copies(method)])


def options_of(name: str) -> dict[str, Any]:
    return {"perturb": 0.05} if name.startswith(("SIMS", "FOOPS")) else {}


@pytest.mark.parametrize("name", STEPPERS)
def test_half_a_square_is_weight_decay(name: str) -> None:
    two = isinstance(STEPPERS[name](make_net()), SIMS)
    decay = {"outer": partial(sgd_with_decay, lr=0.02)} | ({"inner": partial(sgd_with_decay, lr=0.1)} if two else {})
    expected = STEPPERS[name](make_net(), **options_of(name), **decay)
    method = STEPPERS[name](make_net(), **options_of(name), regularizer=half_square)
    for seed in range(3):
        data = make_data(seed=seed, share=0.7)
        for each in (expected, method):
            each.step(task_losses, data)
    torch.testing.assert_close(values(method), values(expected), rtol=0, atol=10 * tolerance(name))


@pytest.mark.parametrize("name", [name for name in FAMILIES if "alternating" not in name])
def test_the_gradient_is_that_of_the_tasks_and_a_finite_difference_of_the_term(name: str) -> None:
    found = []
    for regularizer in (None, quartic):
        method = STEPPERS[name](make_net(), **options_of(name), regularizer=regularizer)
        report = method.backward(mean_losses(), make_data())
        found.append([flat(p.grad for p in copy) for copy in copies(method)])
        method.update()
    at = STEPPERS[name](make_net(), **options_of(name))
    assert report.regularizer == pytest.approx(quartic(at.model).item())
    for copy, without, with_term in zip(copies(at), *found, strict=True):
        direction = [torch.randn_like(p) for p in copy]
        ends = []
        for sign in (1, -1):
            model = make_net()
            for p, value, d in zip(model.parameters(), copy, direction, strict=True):
                p.data = value.detach() + sign * 1e-5 * d
            ends.append(quartic(model))
        slope = (ends[0] - ends[1]) / 2e-5
        torch.testing.assert_close((with_term - without) @ flat(direction), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_micro_batches_add_the_term_once(name: str) -> None:
    ends = []
    for sizes in ((16,), (7, 1, 3, 5)):
        method = STEPPERS[name](make_net(), **options_of(name), regularizer=quartic)
        for seed in range(3):
            method.step(task_losses, *make_data(seed=seed, share=0.7).split(sizes))
        ends.append(values(method))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "SIMS alternating"])
def test_units_of_the_losses_change_no_bit_with_the_term(name: str) -> None:
    ends = []
    for scales in ((1.0, 1.0, 1.0), (1024.0, 1024.0, 1024.0), (2.0**-20, 1.0, 2.0**30)):
        method = STEPPERS[name](make_net(torch.float32), perturb=0.05, regularizer=quartic)
        for seed in range(3):
            method.step(mean_losses(scales), make_data(seed=seed, dtype=torch.float32))
        ends.append(values(method))
    assert all(torch.equal(end, ends[0]) for end in ends)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_gradient_scaler_does_not_scale_the_term(name: str) -> None:
    ends = []
    for scaler in (None, GradScaler("cpu", init_scale=2.0**12)):
        method = STEPPERS[name](make_net(torch.float32), **options_of(name), regularizer=quartic)
        for seed in range(2):
            method.step(mean_losses(), make_data(seed=seed, dtype=torch.float32), scaler=scaler)
            if scaler is not None:
                scaler.update()
        ends.append(values(method))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-5)


def raises(model: nn.Module) -> Tensor:
    raise OSError("disk gone")


def infinite_slope(model: nn.Module) -> Tensor:
    return next(model.parameters()).mul(0).sum().sqrt()


def back_propagates(model: nn.Module, keep: bool) -> Tensor:
    value = half_square(model)
    value.backward(retain_graph=keep)  # type: ignore[no-untyped-call]
    return value


OTHER = make_net()
BACKWARD = "Found a call of `backward` inside of it: leave that to the method"
BAD: dict[str, tuple[Callable[[nn.Module], Any], str]] = {
    "NaN": (lambda model: half_square(model) * torch.nan, "and its gradient should be finite. Found nan, at the model"),
    "infinite": (
        lambda model: quartic(model) + torch.inf,
        "and its gradient should be finite. Found inf, at the model",
    ),
    "slope": (infinite_slope, "and its gradient should be finite. Found a gradient that is not, at a value of"),
    "raises": (raises, "disk gone"),
    "vector": (lambda model: next(model.parameters()), r"should return a scalar tensor. Found a tensor of shape \(8"),
    "number": (lambda model: 1.0, "should return a scalar tensor. Found `float`"),
    "other model": (
        lambda model: half_square(OTHER),
        "regularizer should be computed with the model it is given. Found",
    ),
    "backward": (lambda model: back_propagates(model, keep=False), BACKWARD),
    "backward with its graph": (lambda model: back_propagates(model, keep=True), BACKWARD),
    "constant": (lambda model: torch.ones(()), "should depend on the trainable parameters .* Found a value of 1.0"),
}


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "EW", "MGDA"])
def test_a_term_that_fails_undoes_the_step(name: str, kind: str, scaled: bool) -> None:
    bad = False
    regularizer, sentence = BAD[kind]
    method = STEPPERS[name](
        make_net(batch_norm=True), regularizer=lambda model: regularizer(model) if bad else quartic(model)
    )
    method.step(mean_losses(), make_data())
    before = torch.cat([values(method), flat(b.double() for b in method.model.buffers())])
    bad = True
    with pytest.raises((OSError, ValueError, RuntimeError), match=sentence):
        method.step(mean_losses(), make_data(), scaler=GradScaler("cpu") if scaled else None)
    bad = False
    assert torch.equal(torch.cat([values(method), flat(b.double() for b in method.model.buffers())]), before)
    assert all(p.grad is None for copy in copies(method) for p in copy)
    method.step(mean_losses(), make_data())


def test_a_term_of_the_model_outside_does_not_reach_the_second_module() -> None:
    model = make_net()
    method = STEPPERS["SIMS joint"](model, regularizer=lambda given: half_square(model))
    before = values(method)
    with pytest.raises(ValueError, match=r"should be computed with the model it is given. Found no gradient"):
        method.step(mean_losses(), make_data())
    assert torch.equal(values(method), before)


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "EW", "MGDA"])
def test_an_interrupt_inside_of_the_term_leaves_no_gradient(name: str) -> None:
    interrupted = False

    def regularizer(model: nn.Module) -> Tensor:
        if interrupted:
            back_propagates(model, keep=True)
            raise KeyboardInterrupt
        return half_square(model)

    method, other = (STEPPERS[name](make_net(), regularizer=each) for each in (regularizer, half_square))
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        method.step(mean_losses(), make_data())
    assert all(p.grad is None for copy in copies(method) for p in copy)
    interrupted = False
    for each in (method, other):
        each.step(mean_losses(), make_data())
    assert torch.equal(values(method), values(other))


def test_an_option_that_is_no_function_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"`regularizer` should be a function of the model .* Found `float`"):
        make_sims(make_net(), regularizer=0.1)


@pytest.mark.parametrize("name", ["SIMS", "EW", "MGDA"])
def test_a_step_without_labels_leaves_the_term_out(name: str) -> None:
    method = STEPPERS[name](make_net(), regularizer=half_square)
    before = values(method)
    assert method.step(task_losses, make_data(share=0.0)).skipped is not None
    assert torch.equal(values(method), before)
    assert STEPPERS[name](make_net()).step(task_losses, make_data()).regularizer is None


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "EW", "MGDA"])
def test_buffers_do_not_notice_the_term(name: str) -> None:
    ends = []
    for regularizer in (None, lambda model: 0 * model.trunk.weight.sum()):
        model = make_net()
        parametrizations.spectral_norm(model.trunk)  # every look at the weight changes its buffers
        method = STEPPERS[name](model, regularizer=regularizer)
        for seed in range(2):
            method.step(mean_losses(), make_data(seed=seed))
        ends.append(torch.cat([values(method), flat(model.buffers())]))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["SIMS", "EW", "MGDA"])
def test_sparse_gradients_get_the_term_everywhere(name: str) -> None:
    ends = []
    for sparse in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.EmbeddingBag(10, 4, sparse=sparse), nn.Linear(4, 2)).double()
        method = STEPPERS[name](model, ("left", "right"), regularizer=half_square)
        method.step(lambda model, words: (model(words) - 1).square().mean(0), torch.tensor([[1, 2], [2, 5]]))
        ends.append(parameters(model))
    torch.testing.assert_close(*ends, rtol=0, atol=1e-12)


# Ranks

WAYS = [("SIMS", "ddp"), ("SIMS", "ddp views"), ("SIMS", "fsdp"), ("SIMS joint", "plain"), ("SIMS alternating", "ddp")]
WAYS += [("LogMerit", "ddp"), ("LogMerit", "fsdp"), ("EW", "plain"), ("MGDA", "ddp"), ("MGDA", "plain")]


def wrap(model: nn.Module, wrapper: str, **options: Any) -> nn.Module:
    if wrapper.startswith("ddp"):
        return DistributedDataParallel(model, gradient_as_bucket_view="views" in wrapper)
    if wrapper == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (2,))
        for part in (model.trunk, model):
            fully_shard(part, mesh=mesh, **options)  # type: ignore[arg-type]
    return model


def train(name: str, wrapper: str, rank: int | None) -> Tensor:
    method = STEPPERS[name](wrap(make_net(), wrapper), **options_of(name), regularizer=quartic)
    for seed in range(3):
        data = make_data(seed=seed, share=0.7)
        parts = [data] if rank is None else data.split((11, 5))[rank].split((4, 7) if rank == 0 else (3, 2))
        report = method.step(task_losses, *parts)
    found = [p.full_tensor() if hasattr(p, "full_tensor") else p for copy in copies(method) for p in copy]
    return torch.cat([flat(found), torch.tensor([report.regularizer], dtype=torch.float64)])


def on_rank(rank: int, name: str, wrapper: str) -> Tensor:
    return train(name, wrapper, rank)


def fails_on_one_rank(rank: int, wrapper: str, kind: str) -> tuple[str, bool]:
    """Return the error of this rank, and whether the parameters have changed."""
    method = make_sims(
        wrap(make_net(), wrapper), regularizer=lambda model: (BAD[kind][0] if rank == 1 else quartic)(model)
    )
    before = [p.clone() for copy in copies(method) for p in copy]
    with pytest.raises(Exception, match=r".") as caught:
        method.step(task_losses, make_data(seed=rank))
    after = [p for copy in copies(method) for p in copy]
    return str(caught.value), any(not bool((a == b).all()) for a, b in zip(before, after, strict=True))


def refuses_other_precision(rank: int) -> str:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    model = wrap(make_net(torch.float32), "fsdp", mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    with pytest.raises(ValueError, match=r".") as caught:
        make_sims(model, regularizer=half_square).step(task_losses, make_data(dtype=torch.float32))
    return str(caught.value)


FAILURES = [
    ("plain", "raises"),
    ("plain", "infinite"),
    ("ddp", "NaN"),
    ("ddp", "raises"),
    ("fsdp", "raises"),
    ("fsdp", "slope"),
    ("ddp views", "backward with its graph"),
    ("fsdp", "backward with its graph"),
    ("fsdp", "other model"),
]


SENTENCES = {"raises": "disk gone", "other model": BAD["other model"][1], "backward with its graph": BACKWARD}


@pytest.fixture(scope="module")
def two_ranks() -> dict[str, list[Any]]:
    """Everything that runs on two ranks, in one start of two processes."""
    jobs: dict[str, Job] = {str(way): (on_rank, way) for way in WAYS}
    jobs |= {str(failure): (fails_on_one_rank, failure) for failure in FAILURES}
    return run_ranks(jobs | {"precision": (refuses_other_precision, ())}, timeout=30)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_two_ranks_add_the_term_once(two_ranks: dict[str, list[Any]], way: tuple[str, str]) -> None:
    expected = train(way[0], "plain", None)
    for result in two_ranks[str(way)]:
        assert not isinstance(result, str), result
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_term_that_fails_on_one_rank_raises_on_all(two_ranks: dict[str, list[Any]], failure: Any) -> None:
    for result in two_ranks[str(failure)]:
        assert not isinstance(result, str), result
        sentence, changed = result
        assert SENTENCES.get(failure[1], "regularizer and its gradient should be") in sentence
        assert not changed


def test_a_policy_that_casts_the_parameters_is_refused(two_ranks: dict[str, list[Any]]) -> None:
    for result in two_ranks["precision"]:
        assert "A regularizer should see the parameters in the precision in which they are trained." in result
