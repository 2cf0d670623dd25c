"""What can be trained, by name: a data set with its tasks and the architectures that suit it. They know no method.

A name on the command line may carry options, ``scenes:images=512:resolution=96``; they are arguments of the class.

Example:
    >>> from torch.utils.data import DataLoader
    >>> from torchsims.workloads import load_workload
    >>> workload = load_workload("scenes:images=16:resolution=32", tasks=["depth", "seg"])
    >>> workload.tasks
    ('depth', 'seg')
    >>> model = workload.build_model("hps:width=8")
    >>> batch = next(iter(DataLoader(workload.split("train"), batch_size=2)))
    >>> sorted(workload.losses(workload.predict(model, batch), batch).mean())
    ['depth', 'seg']
"""

from torchsims.workloads.base import Workload
from torchsims.workloads.datasets import Batched, InMemory, Items
from torchsims.workloads.predictors import FilePrediction, Predictor
from torchsims.workloads.registry import WORKLOADS, load_workload, restore_workload, workload_class
from torchsims.workloads.table_predictor import TablePredictor
from torchsims.workloads.task import TaskSpec

__all__ = [
    "WORKLOADS",
    "Batched",
    "FilePrediction",
    "InMemory",
    "Items",
    "Predictor",
    "TablePredictor",
    "TaskSpec",
    "Workload",
    "load_workload",
    "restore_workload",
    "workload_class",
]
