"""Several processes with DistributedDataParallel: the losses of all ranks are reduced before anything nonlinear.

    torchrun --nproc-per-node 2 examples/ddp.py

Wrap the model, and give the wrapper to the method. Every rank draws its own rows; weights and losses in the report are
those of the global batch, the same on all ranks. Every rank needs the same number of micro-batches.
"""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam

from torchsims import SIMS


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the loss of every task, on the rows of this rank."""
    out = model(x)
    return {"near": mse_loss(out[:, 0], x[:, 0].sin()), "far": 1000 * l1_loss(out[:, 1], x[:, 1].cos())}


def main() -> None:
    """Train on all ranks, and compare their parameters."""
    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2)))
    method = SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))
    rows = torch.Generator().manual_seed(dist.get_rank())
    for step in range(20):
        report = method.step(task_losses, torch.randn(32, 8, generator=rows))
        if step % 5 == 0 and dist.get_rank() == 0:
            print(step, report.losses, report.weights)
    mine = nn.utils.parameters_to_vector(model.parameters()).detach()
    first = mine.clone()
    dist.broadcast(first, src=0)
    assert torch.equal(mine, first)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
