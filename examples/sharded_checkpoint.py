"""Checkpoints of a model sharded with `fully_shard` (FSDP2): every rank writes its part, none holds the whole model.

    torchrun --nproc-per-node 2 examples/sharded_checkpoint.py FOLDER

The states of the model and of the method hold shards, which `torch.distributed.checkpoint` saves in parallel. The same
command goes on from the newest complete checkpoint in the folder, on as many ranks as before bit for bit.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import l1_loss, mse_loss
from torch.optim import Adam

from torchsims import SIMS

STEPS, EVERY = 20, 5  # steps in all, and from one checkpoint to the next


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the loss of every task, on the rows of this rank."""
    out = model(x)
    return {"near": mse_loss(out[:, 0], x[:, 0].sin()), "far": 1000 * l1_loss(out[:, 1], x[:, 1].cos())}


def build() -> tuple[nn.Module, SIMS]:
    """Return a sharded model and its method."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 256), nn.Tanh(), nn.Linear(256, 2))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))  # "cuda" on GPUs
    return model, SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))


def batch(step: int) -> Tensor:
    """Return the rows of this rank in a step: a function of both, so that a resumed run sees the same ones."""
    size, rank = dist.get_world_size(), dist.get_rank()
    return torch.randn(96, 8, generator=torch.Generator().manual_seed(step)).chunk(size)[rank]


def newest(folder: Path) -> Path | None:
    """Return the newest checkpoint that rank 0 sees; one that was interrupted lacks the file that is written last."""
    found: list[Path | None] = [max((path.parent for path in folder.glob("*/.metadata")), default=None)]
    dist.broadcast_object_list(found, src=0)
    return found[0]


def restore(path: Path, model: nn.Module, method: SIMS) -> int:
    """Load a checkpoint, saved by any number of ranks, and return its step."""
    method.step(task_losses, batch(0))  # optimizers make their states in a step, and only what is there is loaded
    state: dict[str, Any] = {"step": 0, "model": model.state_dict(), "method": method.state_dict()}
    load(state, checkpoint_id=path)
    model.load_state_dict(state["model"])
    method.load_state_dict(state["method"])
    return int(state["step"])


def train(folder: Path, steps: int) -> None:
    """Train to the last step, from wherever an earlier call was."""
    model, method = build()
    path = newest(folder)
    first = 0 if path is None else restore(path, model, method)
    for step in range(first, steps):
        report = method.step(task_losses, batch(step))
        if (step + 1) % EVERY == 0:
            state = {"step": step + 1, "model": model.state_dict(), "method": method.state_dict()}
            save(state, checkpoint_id=folder / f"{step + 1:06d}")
            if dist.get_rank() == 0:
                print(step + 1, report.losses, report.weights)


def main() -> None:
    """Train on all ranks."""
    dist.init_process_group("gloo")  # "nccl" on GPUs
    train(Path(sys.argv[1]), STEPS)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
