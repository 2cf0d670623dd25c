"""What can be trained, by name: a data set with its model, its losses and its metrics. They know no method.

A name on the command line may carry options, ``scenes:images=512:resolution=96``; those of a workload are the fields of
its class.

Example:
    >>> from torch.utils.data import DataLoader
    >>> from torchsims.workloads import load_workload
    >>> workload = load_workload("scenes:images=16:resolution=32", tasks=["depth", "seg"])
    >>> workload.tasks
    ('depth', 'seg')
    >>> model = workload.model("hps:width=8")
    >>> batch = next(iter(DataLoader(workload.split("train"), batch_size=2)))
    >>> sorted(workload.losses(workload.predict(model, batch), batch).mean())
    ['depth', 'seg']
"""

from torchsims.workloads._base import Batched, InMemory, Workload
from torchsims.workloads._names import NAMES, load_workload, preset

__all__ = ["NAMES", "Batched", "InMemory", "Workload", "load_workload", "preset"]
