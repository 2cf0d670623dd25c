"""A history of losses that trains a loss-level method, and what the method remembers afterwards."""

import torch
from torch import Tensor

from helpers.methods import LossLevel
from helpers.support import TASKS
from helpers.twins import STEPS_PER_EPOCH
from torchsims.scalarizations import Scalarization

NOW = torch.tensor([0.03, 0.8, 21.0], dtype=torch.float64)


def history(*shape: int, steps: int = 6, seed: int = 0) -> Tensor:
    """Return losses of very different sizes, `steps x ... x 3`."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(steps, *shape, 3, generator=generator, dtype=torch.float64)
    return torch.tensor([0.02, 1.0, 30.0], dtype=torch.float64) * noise.exp()


def after(losses: Tensor) -> Tensor:
    """Return what the losses of a step become when the model has made it: large ones improve most."""
    return losses / (1 + losses.log1p())


def train(
    method: Scalarization, losses: Tensor, labelled: Tensor | None = None, observed: Tensor | None = None
) -> Tensor:
    """Run a method through a history and return its objectives, `steps x ...`."""
    observed = after(losses) if observed is None else observed
    objectives = []
    for t in range(len(losses)):
        now = None if labelled is None else labelled[t]
        objectives.append(method(losses[t], now).detach())
        method.observe(observed[t], now)
        if t % STEPS_PER_EPOCH == STEPS_PER_EPOCH - 1:
            method.end_epoch()
    return torch.stack(objectives) if objectives else losses.new_empty(0)


def trained(case: LossLevel, losses: Tensor | None = None) -> Scalarization:
    """Return a method with a past."""
    method = case.make(TASKS)
    train(method, history() if losses is None else losses)
    return method


def gradient(method: Scalarization, losses: Tensor, labelled: Tensor | None = None) -> Tensor:
    """Return the derivative of the objective by the losses, without a trace in the method."""
    losses = losses.clone().requires_grad_()
    training = method.training
    (result,) = torch.autograd.grad(method.eval()(losses, labelled).sum(), losses)
    method.train(training)
    return result


def state(method: torch.nn.Module) -> dict[str, Tensor]:
    """Return a copy of everything a method remembers."""
    return {name: torch.as_tensor(value).clone() for name, value in method.state_dict().items()}


def assert_same_state(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=0, equal_nan=True, msg=f"{name} differs")
