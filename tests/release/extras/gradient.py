"""The extra `gradient`: a step of methods whose weights are TorchJD's."""

from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import SGD

from torchsims import Aggregated, aggregations
from torchsims.aggregations import WeightedAggregation


def task_losses(model: nn.Sequential, batch: Tensor) -> dict[str, Tensor]:
    """Return two losses."""
    out = model(batch)
    return {"a": out[:, 0].square().mean(), "b": (out[:, 1] - 1).square().mean()}


def main() -> None:
    """Take one step of each."""
    for name in ("PCGrad", "AlignedMTL", "IMTLG", "GradVac"):
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        method: WeightedAggregation = getattr(aggregations, name)()
        report = Aggregated(model, method, outer=partial(SGD, lr=0.1)).step(task_losses, torch.randn(8, 4))
        assert set(report.losses) == {"a", "b"}


if __name__ == "__main__":
    main()
