"""Modules and surroundings of every kind: what works with an ordinary loop works with a stepper."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from support import make_data, make_net, make_scalarized, make_sims, mean_losses, parameters
from torchsims import Stepper

METHODS = [make_sims, partial(make_sims, evaluation="joint"), partial(make_scalarized, name="FAMO")]


def test_the_default_dtype_does_not_matter() -> None:
    def trained(model: nn.Module) -> Tensor:
        make_sims(model).step(mean_losses(), make_data())
        make_scalarized(model, "GLS").step(mean_losses(), make_data())
        return parameters(model)

    first, second = make_net(), make_net()
    torch.set_default_dtype(torch.float64)
    try:
        found = trained(first)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, trained(second))


@pytest.mark.parametrize("make", METHODS)
def test_a_step_needs_no_gradients_enabled_around_it(make: Callable[[nn.Module], Stepper[Any]]) -> None:
    first, second = make_net(), make_net()
    make(first).step(mean_losses(), make_data())
    with torch.no_grad():
        make(second).step(mean_losses(), make_data())
    assert torch.equal(parameters(first), parameters(second))


@pytest.mark.parametrize("make", METHODS)
def test_inference_mode_is_refused_by_name(make: Callable[[nn.Module], Stepper[Any]]) -> None:
    method = make(make_net())
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"outside `torch.inference_mode`\. Found"):
        method.step(mean_losses(), make_data())
    method.step(mean_losses(), make_data())
