"""The state of every optimizer can be saved, loaded and continued, bit for bit."""

import io
import pickle
import weakref
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from helpers.optimizers import OPTIMIZERS, STEPPERS_OF, build_with, inputs, two_losses
from helpers.small_runs import differences, snapshot
from helpers.support import drops_gradients
from torchsims.steppers._optimizers import Copies, restorer


def reloaded(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)  # type: ignore[no-any-return]


CASES = [
    (optimizer, stepper)
    for optimizer in OPTIMIZERS
    for stepper in STEPPERS_OF
    if (optimizer, stepper) != ("SparseAdam", "MGDA")  # gradient-level methods make dense gradients
]


@pytest.mark.parametrize(("optimizer", "stepper"), CASES)
def test_a_run_with_any_optimizer_goes_on_as_if_never_stopped(optimizer: str, stepper: str) -> None:
    x = inputs(optimizer, torch.float64)
    method = build_with(optimizer, stepper, seed=0)
    for _ in range(2):
        method.step(two_losses, x)
    saved = reloaded({"model": method.model.state_dict(), "method": method.state_dict()})
    other = build_with(optimizer, stepper, seed=1)
    for _ in range(2):  # torch changes an optimizer when it loads a state
        other.model.load_state_dict(saved["model"])
        other.load_state_dict(saved["method"])
    assert differences(snapshot(method), snapshot(other)) == []
    for each in (method, other):
        each.step(two_losses, x)
    assert differences(snapshot(method), snapshot(other)) == []


def test_a_failed_load_does_not_spoil_the_next_one() -> None:
    method, other = (build_with("Adafactor", "EW", seed) for seed in range(2))
    wrong = {**method.state_dict(), "outer": build_with("SGD", "EW", 0).state_dict()["outer"]}
    for _ in range(2):
        with pytest.raises(ValueError, match=r"`Adafactor`.*beta2_decay"):
            other.load_state_dict(wrong)
        other.load_state_dict(method.state_dict())


@pytest.mark.parametrize("optimizer", ["NAdam", "ASGD", "WideState"])
@drops_gradients
def test_a_failed_step_restores_a_state_wider_than_the_parameters(optimizer: str) -> None:
    method = build_with(optimizer, "SIMS alternating", seed=0, dtype=torch.bfloat16)
    x = inputs(optimizer, torch.bfloat16)
    for _ in range(2):
        method.step(two_losses, x)
    before = deepcopy(snapshot(method))
    method.backward(two_losses, x)  # the challenger has moved
    method.end_epoch()  # drops the gradients, and undoes the move
    assert differences(snapshot(method), before) == []


def test_a_state_fits_the_same_model_in_another_precision() -> None:
    method, other = (build_with("Adam", "SIMS", 0, dtype) for dtype in (torch.float32, torch.bfloat16))
    for _ in range(2):
        method.step(two_losses, inputs("Adam", torch.float32))
    other.load_state_dict(method.state_dict())
    other.step(two_losses, inputs("Adam", torch.bfloat16))
    assert all(p.dtype is torch.bfloat16 for p in other.model.parameters())


def stepped(optimizer: torch.optim.Optimizer) -> None:
    for p in optimizer.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    optimizer.step()


def contents(optimizer: torch.optim.Optimizer) -> list[Any]:
    states = [part.tolist() for state in optimizer.state.values() for part in state.values()]
    return [[p.tolist() for p in optimizer.param_groups[0]["params"]], states]


@pytest.mark.parametrize("kept", [0, 2**26])
def test_copies_that_keep_their_memory_restore_the_same_values(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copies, "KEPT_BYTES", kept)
    copies = Copies()
    optimizer = torch.optim.Adam(nn.Linear(3, 2).parameters())
    for step in range(5):
        if step == 3:  # other tensors of the same sizes, as after loading a checkpoint
            optimizer.load_state_dict(deepcopy(optimizer.state_dict()))
        before, restore = contents(optimizer), restorer(optimizer, copies)
        stepped(optimizer)
        assert contents(optimizer) != before
        restore()
        assert contents(optimizer) == before
        stepped(optimizer)


def test_only_small_copies_keep_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Copies, "KEPT_BYTES", 2**10)
    small, large = torch.zeros(2), torch.zeros(2**8 + 1)
    copies = Copies()
    first = copies.make([small])[0]
    kept = weakref.ref(copies.make([small])[0])
    assert first is not kept() is copies.make([small])[0]
    assert copies.make([large])[0] is not copies.make([large])[0]
    assert kept() is None
    copies.make([small])
    copies.make([small])
    small.data = torch.full((2,), 0.1, dtype=torch.float64)  # as `model.double()` does
    assert copies.make([small])[0].tolist() == [0.1, 0.1]
    assert pickle.loads(pickle.dumps(copies)).make([small])[0] is not copies.make([small])[0]
    rows, columns = torch.zeros(1, 2, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)
    for _ in range(3):
        copies.make([rows])
    assert copies.make([columns])[0].tolist() == [[1.0], [1.0]]


def test_an_accelerator_keeps_less() -> None:
    def keeps(size: int, device: str) -> bool:
        tensors = [torch.zeros(size // 4, device=device), torch.zeros(1)]  # Adam counts steps on a processor
        copies = Copies()
        copies.make(tensors)
        return copies.make(tensors)[0] is copies.make(tensors)[0]

    size = Copies.KEPT_BYTES_OF_ACCELERATOR
    assert keeps(2 * size, "cpu")
    assert keeps(size // 2, "meta")
    assert not keeps(2 * size, "meta")
