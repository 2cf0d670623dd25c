"""Modules and surroundings of every kind: what works with an ordinary loop works with a stepper."""

import torch
from torch import Tensor, nn

from support import make_data, make_net, make_scalarized, make_sims, mean_losses, parameters


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
