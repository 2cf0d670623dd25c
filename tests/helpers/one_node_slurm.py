"""A Slurm cluster of this machine alone, with daemons of its own on free ports."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
CONFIG = """\
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


def missing() -> str:
    """Return why there can be no cluster here; nothing if there can be one."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "the daemons of Slurm need root"


@contextmanager
def one_node_slurm() -> Iterator[Path]:
    """Start the daemons, yield the configuration file, and stop them."""
    home = Path(tempfile.mkdtemp())  # the name of a socket has to be short
    for name in ("state", "spool"):
        (home / name).mkdir()
    (home / "key").write_bytes(os.urandom(128))
    (home / "key").chmod(0o400)
    config = home / "slurm.conf"
    values = {"host": socket.gethostname(), "home": home, "ports": _free_ports(2), "cores": os.cpu_count()}
    config.write_text(CONFIG.format(**values))
    files = {"socket": "munge", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
    munge = ["munged", "--foreground", "--force", *(f"--{name}={home / file}" for name, file in files.items())]
    commands = [munge, *([name, "-D", "-f", str(config)] for name in ("slurmctld", "slurmd"))]
    daemons = []
    try:
        for command in commands:
            daemons.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(0.5)  # each needs the one before
        _wait_until_idle(config)
        yield config
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(home, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _wait_until_idle(config: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    state = ""
    while "idle" not in state:
        assert time.monotonic() < end, f"the node is not there: {state}"
        time.sleep(0.2)
        environment = {**os.environ, "SLURM_CONF": str(config)}
        state = subprocess.run(["sinfo", "-h", "-o", "%t"], env=environment, capture_output=True, text=True).stdout
