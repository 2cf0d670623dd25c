"""On another device, a step works there alone and makes the host wait once; where it is more often, the table says why.

The device is that of `helpers.devices`, which finds a mix of devices and a hidden copy to the host without hardware.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.devices import DEVICE, Accelerated, Accelerator, accelerator, move
from helpers.methods import GRADIENTS, LOSS_LEVEL, STEPPERS, LossLevel
from helpers.support import TASKS, Data, flat, make_data, make_net, make_sims, mean_losses, sgd, task_losses
from torchsims import SIMS, Aggregated, Scalarized, Stepper
from torchsims.scalarizations import EW, UW

STEPS = 2  # before the waits are counted: the first steps look at more


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Accelerator]:
    with accelerator(monkeypatch) as found:
        yield found


def moved(data: Data) -> Data:
    return Data(*(Accelerated(each) for each in (data.x, data.y, data.known)))


def count_waits(device: Accelerator, method: Stepper[Any], closure: Any = task_losses, parts: int = 1) -> list[str]:
    """Return the operations of one step for which the host waits."""
    micro_batches = [moved(make_data(8, seed=seed)) for seed in range(parts)]
    for _ in range(STEPS):
        method.step(closure, *micro_batches)
    device.waits.clear()
    method.step(closure, *micro_batches)
    return device.waits


def values(method: Stepper[Any]) -> Tensor:
    theirs = method._challenger.parameters if isinstance(method, SIMS) else []
    return flat([*method.model.parameters(), *theirs])


@pytest.mark.parametrize("name", ["SIMS", "SIMS joint", "EW", "LogMerit", "FAMO", "MGDA"])
def test_the_numbers_are_those_of_the_processor(name: str, device: Accelerator) -> None:
    here, there = STEPPERS[name](make_net()), STEPPERS[name](move(make_net()))
    for seed in range(3):
        here.step(task_losses, make_data(seed=seed, share=0.7))
        there.step(task_losses, moved(make_data(seed=seed, share=0.7)))
    assert all(p.device == DEVICE for p in there.model.parameters())
    torch.testing.assert_close(values(there).cpu(), values(here), rtol=0, atol=1e-12)


# Planted faults


def reads(read: Callable[[Tensor], Any]) -> Callable[[nn.Module, Data], Any]:
    def closure(model: nn.Module, data: Data) -> Any:
        read(model(data.x)["a"].detach())
        return task_losses(model, data)

    return closure


READS: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "if": lambda x: bool((x > 0).all()),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "copy": lambda x: torch.zeros(len(x), dtype=x.dtype).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "unique": torch.unique,
    "equal": lambda x: torch.equal(x, x + 1),
}


@pytest.mark.parametrize("kind", READS)
def test_a_hidden_wait_is_counted(kind: str, device: Accelerator) -> None:
    method = Scalarized(move(make_net()), EW(), outer=sgd())
    assert len(count_waits(device, method, reads(READS[kind]))) == 2


def test_a_mix_of_devices_is_an_error(device: Accelerator) -> None:
    method = Scalarized(move(make_net()), EW(), outer=sgd())
    with pytest.raises(RuntimeError, match="Expected all tensors on one device"):
        method.step(task_losses, make_data())  # data that was left on the processor
    own = Scalarized(move(make_net()), UW(TASKS), outer=sgd())  # parameters that were
    with pytest.raises(RuntimeError, match="Expected all tensors on one device"):
        own.step(task_losses, moved(make_data()))
    method.step(lambda model, data: reads(lambda x: x * torch.tensor(2.0))(model, data), moved(make_data()))


def test_the_device_does_not_exist_elsewhere() -> None:
    with pytest.raises(RuntimeError, match="outside of `accelerator"):
        Accelerated(torch.ones(2)) + 1


# Every method

WAITS = {
    "SIMS": 1,
    "SIMS joint": 1,
    "FOOPS": 1,
    "SIMS alternating": 2,  # whether the challenger can step has to be known before it does
    "SIMS alternating joint": 2,
}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", WAITS)
def test_two_copies_wait_once(name: str, parts: int, device: Accelerator) -> None:
    waits = count_waits(device, STEPPERS[name](move(make_net())), parts=parts)
    assert len(waits) == WAITS[name], waits


@pytest.mark.parametrize("case", LOSS_LEVEL, ids=lambda case: case.name)
def test_loss_level_methods_wait_once(case: LossLevel, device: Accelerator) -> None:
    method = move(case.make(TASKS))
    waits = count_waits(device, Scalarized(move(make_net()), method, outer=sgd()))
    expected = 2 if method.observes else 1  # the losses after the step are looked at too
    assert len(waits) == expected, waits


def half_square(model: nn.Module) -> Tensor:
    return 0.5 * torch.stack([p.square().sum() for p in model.parameters()]).sum()


OPTIONS: dict[str, dict[str, Any]] = {
    "a regularizer": {"regularizer": half_square},
    "bounds": {"lower_bounds": {"a": -1.0}},
    "a preference": {"preference": {"b": 2.0}},
    "a proximal term": {"prox": 0.1},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_do_not_add_waits(option: str, device: Accelerator) -> None:
    assert len(count_waits(device, make_sims(move(make_net()), **OPTIONS[option]))) == 1


@pytest.mark.parametrize("name", ["SIMS", "LogMerit"])
def test_clipping_and_accumulating_do_not_add_waits(name: str, device: Accelerator) -> None:
    method = STEPPERS[name](move(make_net()))
    count_waits(device, method)
    device.waits.clear()
    for seed in range(2):
        method.accumulate(task_losses, moved(make_data(8, seed=seed)))
    method.backward()
    method.clip_grad_norm_(1.0)
    method.update()
    assert len(device.waits) == 1, device.waits


STEPPER = 3  # the losses are checked before gradients are made of them, those before a direction, which is checked too
SOLVER = 1  # the method solves a problem of m x m numbers on the host
GRADIENT_WAITS = {
    **dict.fromkeys(["MGDA", "PCGrad", "CAGrad", "NashMTL", "FairGrad"], STEPPER + SOLVER),
    **dict.fromkeys(["AlignedMTL", "IMTLG", "UPGrad"], STEPPER + SOLVER),
    "GradVac": STEPPER + SOLVER + 2,  # the tasks with labels, for the similarities: first their number, then which
    "ConFIG": STEPPER,
    "GradDrop": STEPPER,
    "GradNorm": STEPPER + 3,  # a mask selects the tasks with labels: of parameters, their gradient and the first losses
    "DBMTL": STEPPER,
}


@pytest.mark.parametrize("name", sorted({case.method for case in GRADIENTS.values()} - {"from_torchjd"}))
def test_gradient_level_methods_wait_as_often_as_their_solvers_need(name: str, device: Accelerator) -> None:
    method = Aggregated(move(make_net()), move(GRADIENTS[name].make(TASKS)), outer=sgd())
    waits = count_waits(device, method, mean_losses())
    assert len(waits) == GRADIENT_WAITS[name], waits
