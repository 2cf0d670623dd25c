"""A loop on several machines that goes on after a kill: rank 0 saves, all ranks resume, and not one bit differs.

    torchrun --nproc-per-node 2 examples/multi_node.py FOLDER

The folder is on storage that all machines see. Everything that a step needs is either in the checkpoint or a function
of the step and the rank, so that a run that was killed and started again ends as one that was not.
"""

import os
import sys
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam

from torchsims import SIMS

STEPS, EVERY = 20, 5  # steps in all, and from one checkpoint to the next


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the loss of every task, on the rows of this rank."""
    out = model(x)
    return {"near": mse_loss(out[:, 0], x[:, 0].sin()), "far": 1000 * l1_loss(out[:, 1], x[:, 1].cos())}


def save(path: Path, model: nn.Module, method: SIMS, step: int) -> None:
    """Replace the checkpoint: at any moment the old or the new one is there, complete."""
    unfinished = path.with_suffix(".unfinished")
    torch.save({"step": step, "model": model.state_dict(), "method": method.state_dict()}, unfinished)
    os.replace(unfinished, path)


def resume(path: Path, model: nn.Module, method: SIMS) -> int:
    """Load the checkpoint on every rank, and return its step; zero if there is none."""
    step = 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        method.load_state_dict(state["method"])
        step = state["step"]
    found: list[int] = [0] * dist.get_world_size()
    dist.all_gather_object(found, step)
    assert len(set(found)) == 1, f"all ranks should see the same checkpoint, and found those of steps {found}"
    return step


def main() -> None:
    """Train to the last step, from wherever an earlier start of the same command was."""
    path = Path(sys.argv[1]) / "checkpoint.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")  # "nccl" on GPUs
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2)))
    method = SIMS(model, outer=partial(Adam, lr=3e-3), inner=partial(Adam, lr=6e-3))
    for step in range(resume(path, model, method), STEPS):
        rows = torch.Generator().manual_seed(1000 * step + dist.get_rank())
        report = method.step(task_losses, torch.randn(32, 8, generator=rows))
        if (step + 1) % EVERY == 0 and dist.get_rank() == 0:
            print(step + 1, report.losses, report.weights)
            save(path, model, method, step + 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
