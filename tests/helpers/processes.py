"""New processes that need not import torch: each is a fork of one server that has imported it."""

import os
import socket
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch._dynamo", "torchsims.cli", "torchsims.sweeps", "torchsims.workloads.scenes"])


class Command:
    """The command line in a process of its own, and in a session of its own, as a terminal would start it."""

    def __init__(self, folder: Path, *arguments: object, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = folder / "stdout.txt", folder / "stderr.txt"
        call = (list(map(str, arguments)), self._files, dict(environment))
        self._process = CONTEXT.Process(target=_run, args=call)
        self._process.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def wait(self, seconds: float = 250) -> tuple[int, str, str]:
        """Return its exit code, its output and its errors."""
        self._process.join(seconds)
        code = self._process.exitcode
        assert code is not None, "the command did not end"
        output, errors = (file.read_text() for file in self._files)
        return code, output, errors


def run_command_on_ranks(folder: Path, *arguments: object, size: int = 2) -> str:
    """Run the command line on several ranks, as ``torchrun`` does; return the errors of all."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    ranks = [
        Command(folder / str(rank), *arguments, environment=torchrun_environment(rank, size, port))
        for rank in range(size)
    ]
    ends = [rank.wait() for rank in ranks]
    errors = "".join(errors for _, _, errors in ends)
    assert [code for code, _, _ in ends] == [0] * size, errors
    return errors


def torchrun_environment(rank: int, size: int, port: int) -> dict[str, str]:
    """Return what ``torchrun`` tells a rank."""
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()}


def _run(arguments: list[str], files: tuple[Path, Path], environment: Mapping[str, str]) -> None:
    from torchsims import cli

    os.setsid()
    for descriptor, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
    os.environ.update(environment)
    sys.argv = ["torchsims", *arguments]
    cli.main()
