"""A sharded model with `fully_shard` (FSDP2): the challenger is sharded as the model is.

    torchrun --nproc-per-node 2 examples/fsdp2.py

Shard the whole model, then give it to the method. Both copies and both optimizers are sharded; a step is the same as on
one process. Evaluation is sequential, the default.
"""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import l1_loss, mse_loss
from torch.optim import Adam

from torchsims import SIMS


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the loss of every task, on the rows of this rank."""
    out = model(x)
    return {"near": mse_loss(out[:, 0], x[:, 0].sin()), "far": 1000 * l1_loss(out[:, 1], x[:, 1].cos())}


def main() -> None:
    """Train on all ranks."""
    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))  # "cuda" on GPUs
    method = SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))
    rows = torch.Generator().manual_seed(dist.get_rank())
    for step in range(20):
        report = method.step(task_losses, torch.randn(32, 8, generator=rows))
        if step % 5 == 0 and dist.get_rank() == 0:
            print(step, report.losses, report.weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
