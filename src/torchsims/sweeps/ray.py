"""Runs as tasks of Ray, on a cluster or on this machine."""

import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from torchsims._extras import needs
from torchsims.reporting import RunState
from torchsims.sweeps.remote import PAUSE, Ended, Job, Remote, run_job
from torchsims.training import Execution

PATIENCE = 10.0  # seconds until a cluster answers
OWN_CLUSTER = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # with Ray's 15, runs would wait for whatever else the machine does
}
"""Environment of a cluster that is started here."""


@final
class Ray(Remote):
    """Tasks of Ray, one per run. A run whose node or process dies starts again elsewhere, from its checkpoint.

    Args:
        address: of the cluster, ``ray://host:10001`` or ``host:6379``. By default that of the environment variable
            ``RAY_ADDRESS``, else the cluster that was started on this machine, else a new one of this machine alone.
        cpus: cores per run; by default as many as its processes have threads.
        gpus: accelerators per run; runs with a half share one.
        retries: how often a run starts again after its node or process has died.

    Example:
        >>> Ray(gpus=0.5).gpus
        0.5
    """

    def __init__(self, address: str = "", cpus: int = 0, gpus: float = 0.0, retries: int = 3) -> None:
        if not (cpus >= 0 and gpus >= 0 and retries >= 0):
            raise ValueError(
                "Options `cpus`, `gpus` and `retries` should not be negative. "
                f"Found `cpus={cpus}:gpus={gpus:g}:retries={retries}`."
            )
        self.address, self.cpus, self.gpus, self.retries = address, cpus, gpus, retries
        self._task: Any = None
        self._connected = False
        self._done: set[Any] = set()

    def check(self) -> None:
        with needs("ray"):
            import ray
        if not ray.is_initialized():
            self._check_address()

    def start(self, out: Path, execution: Execution) -> None:
        with needs("ray"):
            import ray
        if not ray.is_initialized():
            self._check_address()
            self._connect()
        as_task = ray.remote(num_cpus=self._cpus(execution), num_gpus=self.gpus, max_retries=self.retries)
        self._task = as_task(run_job)

    def submit(self, job: Job) -> Any:
        return self._task.options(name=Path(job.folder).name).remote(job)

    def wait(self, handles: Sequence[Any]) -> None:
        import ray

        ray.wait(handles, timeout=PAUSE)  # for one of them
        done, _ = ray.wait(handles, num_returns=len(handles), timeout=0)
        self._done = set(done)

    def result(self, handle: Any) -> Ended | None:
        import ray

        if handle not in self._done:
            return None
        try:
            found: Ended = ray.get(handle)
        except ray.exceptions.TaskCancelledError:
            return Ended(RunState.STOPPED)
        except ray.exceptions.RayError as error:
            last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            return Ended(RunState.FAILED, f"its task ended: {last[0]}; --resume continues it")
        return found

    def cancel(self, handle: Any) -> None:
        import ray

        ray.cancel(handle)  # an interrupt for a run, which saves its state

    def stop(self) -> None:
        if self._connected:
            import ray

            ray.shutdown()
            self._connected = False

    def notice(self, execution: Execution) -> str:
        import ray

        cpus = self._cpus(execution)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= self.gpus for node in nodes):
            return ""
        gpus = f" and {self.gpus:g} accelerators" if self.gpus else ""
        return f"No node of the Ray cluster has the {cpus} cores{gpus} of a run now: runs wait until there is one."

    def _cpus(self, execution: Execution) -> int:
        return self.cpus or execution.cores

    def _known_address(self) -> str:
        return self.address or os.environ.get("RAY_ADDRESS", "")

    def _check_address(self) -> None:
        """Raise an error at once where Ray would try to connect for many minutes."""
        address = self._known_address()
        if address in ("", "auto", "local"):
            return
        host, _, port = address.removeprefix("ray://").rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=PATIENCE):
                return
        except ValueError:
            raise ValueError(f"The address of a Ray cluster should look like host:6379. Found `{address}`.") from None
        except OSError as error:
            raise ConnectionError(f"There is no Ray cluster at `{address}`: {error}.") from error

    def _connect(self) -> None:
        """Connect to the cluster, or start one on this machine that ends with this process."""
        import ray

        for name, value in OWN_CLUSTER.items():
            os.environ.setdefault(name, value)
        handler = signal.getsignal(signal.SIGTERM)  # Ray replaces it
        options = {} if "://" in self._known_address() else {"include_dashboard": False, "log_to_driver": False}
        try:
            ray.init(self.address or None, logging_level="ERROR", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ConnectionError(f"Ray does not start, or the cluster cannot be reached: {reason}") from error
        finally:
            signal.signal(signal.SIGTERM, handler)
        self._connected = True
