"""Runs functions on several ranks, each a process of its own on this machine."""

import tempfile
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes

from helpers.processes import CONTEXT

Job = tuple[Callable[..., Any], tuple[Any, ...]]


def run_ranks(
    jobs: Mapping[str, Job], size: int = 2, timeout: float = 120, start_method: str | None = None
) -> dict[str, list[Any]]:
    """Return what ``function(rank, *args)`` returns on every rank, in order of rank, for every job.

    All jobs run one after another in the same processes, because starting processes is what takes time. A job that
    raises returns the text of its error; so does one that waits for another rank longer than ``timeout`` seconds.
    """
    start_method = start_method or CONTEXT.get_start_method()
    with tempfile.TemporaryDirectory() as folder:
        start_processes(  # type: ignore[no-untyped-call]
            _worker, (size, folder, dict(jobs), timeout), nprocs=size, start_method=start_method
        )
        results = [torch.load(Path(folder) / f"{rank}.pt", weights_only=False) for rank in range(size)]
    return {name: [result[name] for result in results] for name in jobs}


def run_ranks_after_imports(jobs: Mapping[str, Job]) -> dict[str, list[Any]]:
    """Do the same for jobs whose modules take long to import: one process imports them, and the ranks are its forks."""
    with tempfile.TemporaryDirectory() as folder:
        start_processes(  # type: ignore[no-untyped-call]
            _fork_ranks, (folder, dict(jobs)), nprocs=1, start_method=CONTEXT.get_start_method()
        )
        results: dict[str, list[Any]] = torch.load(Path(folder) / "results.pt", weights_only=False)
    return results


def _fork_ranks(_: int, folder: str, jobs: dict[str, Job]) -> None:
    torch.set_num_threads(1)
    torch.save(run_ranks(jobs, start_method="fork"), Path(folder) / "results.pt")


def _worker(rank: int, size: int, folder: str, jobs: dict[str, Job], timeout: float) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=timedelta(seconds=timeout)
    )
    results: dict[str, Any] = {}
    for name, (function, args) in jobs.items():
        try:
            results[name] = function(rank, *args)
        except Exception:  # the test that reads the result shows it
            results[name] = traceback.format_exc()
    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
