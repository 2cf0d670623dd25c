"""Bytes of a sharded checkpoint of SIMS, per rank: in memory, on disk, and what saving adds to the peak of a process.

Run as `torchrun --nproc-per-node 2 bench/sharded_checkpoints.py`.
"""

import resource
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Adam

from torchsims import SIMS

WIDTH, LAYERS = 1024, 16


def task_losses(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    out = model(x)
    return {"zero": out[:, 0].square().mean() + 1, "one": (out[:, 1] - 1).square().mean() + 1}


def shards(state: Any) -> list[Tensor]:
    """Return the parts of sharded tensors in a nested state that this rank holds."""
    if isinstance(state, DTensor):
        return [state.to_local()]
    entries = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    return [shard for entry in entries for shard in shards(entry)]


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
parameters = sum(p.nbytes for p in model.parameters())
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for module in (*model, model):
    fully_shard(module, mesh=mesh)
method = SIMS(model, outer=partial(Adam, lr=1e-4), inner=partial(Adam, lr=2e-4))
for _ in range(2):
    method.step(task_losses, torch.randn(8, WIDTH))
state = {"model": model.state_dict(), "method": method.state_dict()}
held, before, folders = sum(shard.nbytes for shard in shards(state)) / 1e6, peak(), [tempfile.mkdtemp()]
dist.broadcast_object_list(folders)
save(state, checkpoint_id=folders[0])
written = sum(path.stat().st_size for path in Path(folders[0]).glob(f"__{dist.get_rank()}_*")) / 1e6
row = f"rank {dist.get_rank()}: holds {held:.1f} MB, wrote {written:.1f} MB, peak {before:.0f} MB, {peak():.0f} after"
rows: list[str] = [""] * dist.get_world_size()
dist.all_gather_object(rows, row)
if dist.get_rank() == 0:
    print(f"model {parameters / 1e6:.1f} MB", *rows, sep="\n")
dist.destroy_process_group()
