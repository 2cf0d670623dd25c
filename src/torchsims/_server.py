"""What the server of :mod:`torchsims._workers` imports: everything that a run needs, once for all of its forks."""

import gc
import signal
from importlib import import_module

_before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
gc.disable()  # it would look at all objects again and again, and none of them is garbage
for _name in ("torchsims.sweeps.local", "torch._dynamo", "tensorboard.compat.proto.event_pb2"):
    import_module(_name)
gc.freeze()  # no collection of a fork copies these objects, and the server ends without looking at them
gc.enable()
signal.signal(signal.SIGINT, _before)
