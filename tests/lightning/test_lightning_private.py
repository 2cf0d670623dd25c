"""The private parts that the room for Lightning relies on are still there; if not, the name of the test says which."""

import torch
from lightning.pytorch.plugins.precision import amp
from torch import nn

from helpers.support import make_sims
from torchsims.lightning import MethodOptimizer


def test_lightning_leaves_gradients_alone_that_an_optimizer_unscales_itself() -> None:
    optimizer = MethodOptimizer(make_sims(nn.Linear(1, 2)))
    assert amp._optimizer_handles_unscaling(optimizer)  # type: ignore[attr-defined]


def test_a_scaler_leaves_gradients_alone_that_an_optimizer_unscales_itself() -> None:
    optimizer = MethodOptimizer(make_sims(nn.Linear(1, 2)))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with optimizer.taking_step():
        optimizer.take_group()
        optimizer.method.backward(lambda model: model(torch.ones(1, 1))[0].square(), scaler=scaler)
        gradients = [p.grad.clone() for group in optimizer.param_groups for p in group["params"]]
        scaler.step(optimizer)
    found = [p.grad for group in optimizer.param_groups for p in group["params"]]
    assert all(torch.equal(a, b) for a, b in zip(gradients, found, strict=True))
