"""The core needs torch and numpy: a step of SIMS, and of a loss-level method. What needs an extra names it."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Adam

import torchsims
from torchsims import SIMS, Scalarized
from torchsims.aggregations import PCGrad
from torchsims.scalarizations import FAMO


def task_losses(model: nn.Module, batch: Tensor) -> dict[str, Tensor]:
    """Return two losses of different units."""
    out = model(batch)
    return {"near": out[:, 0].square().mean(), "far": 1000 * (out[:, 1] - 1).abs().mean()}


def main() -> None:
    """Take steps, and ask for a method of an extra that is not there."""
    for name in torchsims.__all__:
        if name not in ("load", "Predictor", "TablePredictor"):  # of runs of the commands
            getattr(torchsims, name)
    model, batch = nn.Linear(4, 2), torch.ones(8, 4)
    report = SIMS(model, outer=partial(Adam, lr=1e-3), inner=partial(Adam, lr=5e-3)).step(task_losses, batch)
    assert set(report.weights) == {"near", "far"}
    Scalarized(model, FAMO(), outer=partial(Adam, lr=1e-3)).step(task_losses, batch)
    sentence = ""
    try:
        PCGrad()
    except ImportError as error:
        sentence = str(error)
    assert "torchsims[gradient]" in sentence, "TorchJD should not be installed here"


if __name__ == "__main__":
    main()
