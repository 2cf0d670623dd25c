"""Scalarizers of TorchJD train as they do when they are called directly, on any split of the batch."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchjd.scalarization as jd
from torch import Tensor, nn

from helpers.support import TASKS, make_data, make_net, mean_losses, parameters, sgd, task_losses
from torchsims import Scalarized
from torchsims.scalarizations import EW, from_torchjd

WEIGHTS = torch.tensor([0.5, 2.0, 1.5], dtype=torch.float64)
SCALARIZERS: dict[str, Callable[[], Any]] = {
    "COSMOS": lambda: jd.COSMOS(0.5, WEIGHTS),
    "Constant": lambda: jd.Constant(WEIGHTS),
    "GeometricMean": jd.GeometricMean,
    "IMTLL": lambda: jd.IMTLL(3).double(),
    "Mean": jd.Mean,
    "PBI": lambda: jd.PBI(0.3, WEIGHTS),
    "Random": jd.Random,
    "STCH": lambda: jd.STCH(0.7),
    "Sum": jd.Sum,
    "UW": lambda: jd.UW(3).double(),
}
SEED = 5


def test_every_scalarizer_of_torchjd_is_here_or_refused() -> None:
    assert {*SCALARIZERS, "Scalarizer", "DWA", "FAMO"} == set(jd.__all__)


def train_directly(name: str, steps: int) -> Tensor:
    """Return the parameters after some steps of an ordinary loop with the scalarizer."""
    model, scalarizer = make_net(), SCALARIZERS[name]()
    optimizer = sgd()([*model.parameters(), *scalarizer.parameters()])
    draws = torch.Generator().manual_seed(SEED)
    for seed in range(steps):
        losses = mean_losses()(model, make_data(seed=seed))
        torch.manual_seed(int(torch.randint(2**62, (), generator=draws)))
        optimizer.zero_grad()
        scalarizer(torch.stack([losses[task] for task in TASKS])).backward()
        optimizer.step()
    return parameters(model)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("name", SCALARIZERS)
def test_it_takes_the_steps_of_torchjd_called_directly(name: str, parts: int) -> None:
    model = make_net()
    method = Scalarized(model, from_torchjd(SCALARIZERS[name](), seed=SEED), outer=sgd())
    for seed in range(4):
        method.step(mean_losses(), *make_data(seed=seed).split([16 // parts] * parts))
    torch.testing.assert_close(parameters(model), train_directly(name, 4), rtol=0, atol=1e-12)


def test_the_stepper_takes_a_scalarizer_as_it_is() -> None:
    ends = []
    for method in (jd.STCH(0.7), from_torchjd(jd.STCH(0.7))):
        model = make_net()
        stepper = Scalarized(model, method, outer=sgd())
        stepper.step(task_losses, make_data())
        ends.append(parameters(model))
    assert torch.equal(*ends)


@pytest.mark.parametrize("name", SCALARIZERS)
def test_a_saved_scalarizer_goes_on_as_if_never_stopped(name: str) -> None:
    def go_on(method: Scalarized, seeds: range) -> None:
        for seed in seeds:
            method.step(task_losses, make_data(seed=seed))

    model, again = make_net(), make_net(seed=1)
    method = Scalarized(model, SCALARIZERS[name](), outer=sgd())
    go_on(method, range(3))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "method": method.state_dict()}, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    go_on(method, range(3, 6))
    resumed = Scalarized(again, SCALARIZERS[name](), outer=sgd())
    again.load_state_dict(state["model"])
    resumed.load_state_dict(state["method"])
    go_on(resumed, range(3, 6))
    assert torch.equal(parameters(model), parameters(again))


def test_the_state_of_another_scalarizer_does_not_fit() -> None:
    method, other = (Scalarized(make_net(), each, outer=sgd()) for each in (jd.Mean(), jd.Sum()))
    with pytest.raises(ValueError, match=r"should be one of `Mean`\. Found one of `Sum`"):
        method.load_state_dict(other.state_dict())


def test_a_failed_step_restores_the_random_numbers_and_the_parameters() -> None:
    def bad(model: nn.Module, data: Any) -> dict[str, Tensor]:
        return {task: loss * torch.nan for task, loss in mean_losses()(model, data).items()}

    ends = []
    for fails in (True, False):
        model = make_net()
        method = Scalarized(model, jd.Random(), outer=sgd())
        method.step(mean_losses(), make_data())
        if fails:
            with pytest.raises(ValueError, match="should be finite"):
                method.step(bad, make_data())
        method.step(mean_losses(), make_data())
        ends.append(parameters(model))
    assert torch.equal(*ends)


def test_a_scalarizer_sees_only_the_tasks_with_labels() -> None:
    data = make_data()
    data.known[:, 1] = False
    model = make_net()
    report = Scalarized(model, jd.Mean(), outer=sgd()).step(task_losses, data)
    assert report.weights == {"a": 0.5, "b": 0.0, "c": 0.5}
    with pytest.raises(ValueError, match=r"should have shape \(3,\)"):
        Scalarized(model, jd.UW(3), outer=sgd()).step(task_losses, data)


def test_evaluation_foretells_training() -> None:
    method, losses = from_torchjd(jd.Random()), torch.tensor([1.0, 2.0, 4.0])
    foretold = method.eval()(losses)
    assert torch.equal(method.train()(losses), foretold)
    assert not torch.equal(method(losses), foretold)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: jd.DWA(), r"TorchJD's `DWA`, which does not: use `torchsims.scalarizations.DWA`\."),
        (lambda: jd.FAMO(3), r"TorchJD's `FAMO`, which does not: use `torchsims.scalarizations.FAMO`\."),
        (lambda: nn.Linear(1, 1), r"or a `Scalarizer` of TorchJD\. Found Linear\."),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(wrong: Callable[[], nn.Module], sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        Scalarized(make_net(), wrong(), outer=sgd())


def test_independent_runs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"one dimension. Found shape \(2, 3\)"):
        from_torchjd(jd.Mean())(torch.ones(2, 3))


def test_without_torchjd_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchjd.scalarization", None)
    with pytest.raises(ImportError, match=r"pip install 'torchsims\[gradient\]'"):
        Scalarized(make_net(), nn.Identity(), outer=sgd())
    Scalarized(make_net(), EW(), outer=sgd())
