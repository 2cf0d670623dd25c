"""The processes of one run, as ``torchrun`` started them; one process without it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class World:
    """The processes that train one model together, and the rank and the device of this one."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and shows progress."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait until every process has called this."""
        self.any(False)

    def any(self, flag: bool) -> bool:
        """Return whether ``flag`` is true in any process."""
        if self.size == 1:
            return flag
        count = torch.tensor(int(flag), device=self.device)
        dist.all_reduce(count)
        return bool(count)

    def agrees(self, number: int) -> bool:
        """Return whether ``number`` is the same in all processes."""
        if self.size == 1:
            return True
        ends = torch.tensor([number, -number], device=self.device)
        dist.all_reduce(ends, dist.ReduceOp.MAX)
        return bool(ends.sum() == 0)


@contextmanager
def launched() -> Iterator[World]:
    """Join the processes that ``torchrun`` started, for one or several runs; those already joined stay joined."""
    local = int(os.environ.get("LOCAL_RANK", 0))
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = torch.device("cpu") if accelerator is None else torch.device(accelerator.type, local)
    if accelerator is not None:
        torch.accelerator.set_device_index(local)
    joins = not _joined() and processes() > 1
    if joins:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(*_rank_and_size(), device)
    finally:
        if joins:
            dist.destroy_process_group()


def processes() -> int:
    """Return the number of processes that share every run, joined or not; one without ``torchrun``."""
    return _rank_and_size()[1]


def first_process() -> bool:
    """Return whether this process is the one that writes files and shows progress."""
    return _rank_and_size()[0] == 0


def _joined() -> bool:
    return dist.is_available() and dist.is_initialized()


def _rank_and_size() -> tuple[int, int]:
    if _joined():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
