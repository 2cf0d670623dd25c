"""How many operators a step takes beyond its passes, and that shortcuts change no bit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.methods import SCALARIZED, TWO_COPIES, Maker
from helpers.support import Data, make_data, make_net, mean_losses, parameters
from torchsims import SIMS, Scalarized, TaskLosses, merit
from torchsims.normalizers import EMA
from torchsims.scalarizations import EW, FAMO, LogMerit
from torchsims.steppers import _comparison, _global_batch, _gradients
from torchsims.steppers._distributed import Ranks

OUTER, INNER = partial(Adam, lr=1e-3), partial(Adam, lr=5e-3)
Step = Callable[[], object]


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators dispatched inside."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operators(step: Step) -> int:
    for _ in range(2):  # the states of the optimizers appear in the first step
        step()
    with Counter() as counter:  # type: ignore[no-untyped-call]
        step()
    return int(counter.count)


def small(tasks: int) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, tasks)), torch.randn(16, 4)


def losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    return {f"{i}": y.square().mean() for i, y in enumerate(model(x).unbind(1))}


def by_hand(tasks: int) -> int:
    model, x = small(tasks)
    optimizer = OUTER(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.stack(list(losses(model, x).values())).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return operators(step)


def forward_pass(tasks: int) -> int:
    return operators(torch.no_grad()(partial(losses, *small(tasks))))


METHODS: dict[str, tuple[Callable[[nn.Module], Any], int, int, int]] = {
    # what makes it, steps by hand in it, further forward passes, and the most operators beyond them
    "EW": (lambda model: Scalarized(model, EW(), outer=OUTER), 1, 0, 15),
    "LogMerit": (lambda model: Scalarized(model, LogMerit(), outer=OUTER), 1, 0, 30),
    "FAMO": (lambda model: Scalarized(model, FAMO(), outer=OUTER), 1, 1, 75),
    "SIMS, joint": (lambda model: SIMS(model, outer=OUTER, inner=INNER, evaluation="joint"), 2, 0, 45),
    "SIMS, sequential": (lambda model: SIMS(model, outer=OUTER, inner=INNER), 2, 1, 60),
}


@pytest.mark.skipif(not hasattr(torch, "_foreach_clone"), reason="this torch copies tensors one by one")
@pytest.mark.parametrize("name", METHODS)
def test_operators_beyond_the_passes_are_few_and_do_not_grow_with_the_tasks(name: str) -> None:
    make, steps, forwards, most = METHODS[name]
    beyond = []
    for tasks in (4, 16):
        model, x = small(tasks)
        passes = steps * by_hand(tasks) + forwards * forward_pass(tasks)
        beyond.append(operators(partial(make(model).step, losses, x)) - passes)
    assert beyond[0] <= most
    assert beyond[1] == beyond[0]


def counted(model: nn.Module, data: Data) -> TaskLosses:
    """Return the same losses as sums of one element each: whether there are labels is then known on the device only."""
    totals = mean_losses()(model, data)
    return TaskLosses(totals, dict.fromkeys(totals, 1))


SETTINGS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "bounds": lambda: {"lower_bounds": {"a": -0.5, "c": 0.01}},
    "normalizer": lambda: {"normalize": EMA(0.5)},
}


def trained(make: Maker, closure: Callable[..., Any], dtype: torch.dtype, parts: int, **options: Any) -> list[Any]:
    model = make_net(dtype)
    method = make(model, **options)
    result: list[Any] = []
    for seed in range(3):
        report = method.step(closure, *make_data(8, dtype, seed=seed).split([8 // parts] * parts))
        result += [report.losses, report.weights, parameters(model).tolist()]
    return result


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", [*TWO_COPIES, *SCALARIZED])
def test_what_is_known_beforehand_about_labels_changes_no_bit(name: str, settings: str) -> None:
    make = (TWO_COPIES | SCALARIZED)[name]
    dtype = torch.float64 if name in ("UW", "IMTLL", "LDCMTL") else torch.float32
    plain, general = (trained(make, closure, dtype, 1, **SETTINGS[settings]()) for closure in (mean_losses(), counted))
    assert plain == general


def test_numbers_fetched_one_by_one_are_those_fetched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    single, double = torch.rand(3), torch.rand(2, dtype=torch.float64)
    tensors = (single, None, double, single[0], torch.tensor([True, False]), torch.tensor([1.0, torch.inf, torch.nan]))
    at_once = partial(_global_batch.to_host, *tensors)
    one_by_one = at_once()
    monkeypatch.setattr(_global_batch, "_IS_CPU", lambda _: False)
    assert str(one_by_one) == str(at_once()).replace("[1.0, 0.0]", "[True, False]")


@pytest.mark.parametrize("augment", [0.0, 0.3])
@pytest.mark.parametrize("tau", [1e-3, 1.0, 50.0])
def test_the_merit_of_the_host_is_that_of_the_device(tau: float, augment: float) -> None:
    for values in ([0.3], [0.0, 0.0, 0.0], [-4.0, 7.5, 7.5], [1e4, -1e4], []):
        d = torch.tensor([*values, 5.0], dtype=torch.float64)
        labelled = torch.tensor([True] * len(values) + [False])
        expected = merit.smooth_max(d, tau=tau, augment=augment, labelled=labelled)
        assert _comparison.smooth_max(values, tau, augment) == pytest.approx(expected.item(), rel=1e-12, abs=1e-12)


DENSE = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.mark.parametrize("bad", [0.0, torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("kinds", [[kind] for kind in DENSE] + [DENSE, [torch.float32, torch.complex64]], ids=str)
def test_gradients_checked_at_once_are_those_checked_one_kind_after_the_other(
    kinds: list[torch.dtype], bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = [nn.Parameter(torch.ones(3, dtype=kind)) for kind in kinds]
    ranks, optimizer = Ranks(nn.ParameterList(parameters)), SGD(parameters)
    gradients = [torch.tensor([0.1, -3e-5, bad]).to(p) for p in parameters]
    for p, gradient in zip(parameters, gradients, strict=True):
        p.grad = gradient.clone()
    at_once = bool(_gradients.nonfinite_gradients(ranks, optimizer))
    with monkeypatch.context() as patch:
        patch.setattr(_gradients, "_check_at_once", lambda *_: None)
        assert at_once == bool(_gradients.nonfinite_gradients(ranks, optimizer)) == (bad != 0)
    torch.testing.assert_close([p.grad for p in parameters], gradients, rtol=0.0, atol=0.0, equal_nan=True)
    for p in parameters:
        p.grad = torch.zeros_like(p)
    assert not _gradients.nonfinite_gradients(ranks, optimizer)  # what was found before does not stay


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "LogMerit", "EW"])
def test_micro_batches_of_scalars_are_those_of_counted_losses(name: str) -> None:
    make = (TWO_COPIES | SCALARIZED)[name]
    plain, general = (trained(make, closure, torch.float64, 2) for closure in (mean_losses(), counted))
    if name == "EW":  # whose coefficients are known before the losses, from the second step on
        torch.testing.assert_close(plain[-1], general[-1], rtol=1e-12, atol=1e-14)
    else:
        assert plain == general
