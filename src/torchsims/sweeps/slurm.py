"""Runs as jobs of Slurm, through submitit."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import Any, final

from torchsims._extras import needs
from torchsims.reporting import RunState
from torchsims.sweeps._cells import RunCell
from torchsims.sweeps.remote import Ended, Job, Remote, run_job
from torchsims.training import Execution
from torchsims.training.loop import CONFIG


@final
class Slurm(Remote):
    """Jobs of Slurm, one per run. A job that is cancelled saves its state, and ``--resume`` continues it.

    Args:
        partition: where jobs are submitted to; the default one of the cluster by default.
        minutes: how long a job may take.
        gpus: accelerators per run.
        memory: memory per run, in GB; the default of the cluster by default.
        cluster: ``slurm``, or ``local`` for processes of this machine, to try it.

    Example:
        >>> Slurm(minutes=30).minutes
        30
    """

    def __init__(
        self, partition: str = "", minutes: int = 60, gpus: int = 0, memory: float = 0.0, cluster: str = "slurm"
    ) -> None:
        if not (minutes > 0 and gpus >= 0 and memory >= 0):
            raise ValueError(
                "Options `minutes`, `gpus` and `memory` should be positive. "
                f"Found `minutes={minutes}:gpus={gpus}:memory={memory:g}`."
            )
        if cluster not in ("slurm", "local"):
            raise ValueError(f"Option `cluster` should be slurm or local. Found `cluster={cluster}`.")
        self.partition, self.minutes, self.gpus, self.memory, self.cluster = partition, minutes, gpus, memory, cluster
        self._executor: Any = None

    def check(self) -> None:
        with needs("sweeps"):
            import submitit  # noqa: F401  # whether it is there
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError(
                "Slurm's `sbatch` is not on this machine: start the command where jobs are submitted, or try it with "
                "--on slurm:cluster=local."
            )

    def start(self, out: Path, execution: Execution) -> None:
        import submitit

        self.check()
        self._executor = submitit.AutoExecutor(folder=out / "slurm", cluster=self.cluster)
        self._executor.update_parameters(**self._parameters(execution))

    def submit(self, job: Job) -> Any:
        return self._executor.submit(run_job, job)

    def result(self, handle: Any) -> Ended | None:
        if not handle.done():
            return None
        error = handle.exception()
        if error is None:
            found: Ended = handle.result()
            return found
        last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        return Ended(RunState.FAILED, f"its job ended: {last[0]}; --resume continues it")

    def cancel(self, handle: Any) -> None:
        handle.cancel(check=False)

    def describe(self, cells: Sequence[RunCell], out: Path, execution: Execution) -> str:
        """Return the scripts that stand for the jobs: any other scheduler can start the same command."""
        options = {"partition": self.partition, "mem": f"{self.memory:g}G" if self.memory else ""}
        lines = ["#!/bin/bash", f"#SBATCH --time={self.minutes}", f"#SBATCH --cpus-per-task={execution.cores}"]
        lines += [f"#SBATCH --gpus-per-node={self.gpus}"] if self.gpus else []
        lines += [f"#SBATCH --{name}={value}" for name, value in options.items() if value]
        scripts = []
        for cell in cells:
            words = [sys.executable, "-m", "torchsims", "train", "--config", str(cell.folder / CONFIG)]
            scripts.append("\n".join([*lines, join([*words, "--resume", "--out", str(cell.folder)])]))
        return "\n\n".join(scripts)

    def _parameters(self, execution: Execution) -> dict[str, Any]:
        found: dict[str, Any] = {"timeout_min": self.minutes, "cpus_per_task": execution.cores}
        if self.gpus:
            found["gpus_per_node"] = self.gpus
        if self.memory:
            found["mem_gb"] = self.memory
        if self.partition and self.cluster == "slurm":
            found["slurm_partition"] = self.partition
        return found
