"""Where the processes of runs on this machine come from: on Linux, a server that has imported what a run needs.

Importing it takes a new process seconds, and a fork of the server no time. A command that will need processes starts
the server first, so that it imports while the command does. Nothing here imports torch.
"""

import sys
from multiprocessing import get_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not all of them are there on all systems
    from multiprocessing.context import ForkServerContext, SpawnContext

IMPORTED = ["torchsims._server"]


def worker_context() -> "ForkServerContext | SpawnContext":
    """Return what makes processes; start the server if there is none.

    Elsewhere than on Linux there is none, because libraries of the system may not work in a fork.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    from multiprocessing import forkserver

    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    forkserver.ensure_running()
    return context
