"""The agents that ``torchrun`` starts, one per machine, all on this one: they restart the ranks when one dies."""

import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from helpers.processes import CONTEXT

NODES = 2


def run_agents(folder: Path, function: Callable[..., Any], *args: Any) -> list[str]:
    """Run ``function(*args)`` on one rank per agent, as ``torchrun --nnodes 2`` does; return what each agent printed.

    Agents and ranks are forks, because starting Python and importing torch is what takes time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    outputs = [folder / f"agent{node}.txt" for node in range(NODES)]
    agents = [CONTEXT.Process(target=_agent, args=(output, port, function, args)) for output in outputs]
    for agent in agents:
        agent.start()
    for agent in agents:
        agent.join(120)
    codes, texts = [agent.exitcode for agent in agents], [output.read_text() for output in outputs]
    assert codes == [0] * NODES, "\n".join(texts)
    return texts


def _agent(output: Path, port: int, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    for descriptor in (1, 2):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # as docs/multi-node.md says
    config = LaunchConfig(
        min_nodes=NODES,
        max_nodes=NODES,
        nproc_per_node=1,
        run_id="test",
        rdzv_backend="c10d",
        rdzv_endpoint=f"localhost:{port}",
        max_restarts=5,
        monitor_interval=0.1,
        start_method="fork",
        local_addr="localhost",
    )
    elastic_launch(config, function)(*args)


def next_victim(folder: Path, victims: Sequence[int]) -> Callable[[], None]:
    """Return what kills this process if it is the rank that dies next: one rank of the list in each life of all."""
    life = len(list(folder.glob("killed*")))
    rank = int(os.environ["RANK"])

    def die() -> None:
        if [rank] == list(victims[life : life + 1]):
            (folder / f"killed{life}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die
