"""Networks with one output per task, and the losses of their tasks; they know no method.

Example:
    >>> from functools import partial
    >>> from torch.optim import Adam
    >>> from torchsims import SIMS
    >>> from torchsims.data import Scenes
    >>> from torchsims.models import HPS, dense_losses
    >>> def task_losses(model, batch):
    ...     return dense_losses(model(batch["image"]), batch)
    >>> model = HPS({"seg": 8, "depth": 1, "normals": 3})
    >>> method = SIMS(model, outer=partial(Adam, lr=1e-3), inner=partial(Adam, lr=2e-3))
    >>> report = method.step(task_losses, Scenes(size=4).batch(range(4)))
    >>> sorted(report.losses)
    ['depth', 'normals', 'seg']
"""

from torchsims.models.dense import (
    HPS,
    dense_losses,
    depth_loss,
    edges_loss,
    normals_loss,
    saliency_loss,
    segmentation_loss,
)
from torchsims.models.lenet import LeNet
from torchsims.models.registry import MODELS, SINGLE_TASK, Architecture
from torchsims.models.sam2 import SAM2MTL, sam2_config
from torchsims.models.saving import load_trainable, save_trainable
from torchsims.models.single_task import SingleTask
from torchsims.models.tabular import ESMM, MLP, PLE, MMoE, SharedBottom, TabularNetwork, class_loss, number_loss

__all__ = [
    "ESMM",
    "HPS",
    "MLP",
    "MODELS",
    "PLE",
    "SAM2MTL",
    "SINGLE_TASK",
    "Architecture",
    "LeNet",
    "MMoE",
    "SharedBottom",
    "SingleTask",
    "TabularNetwork",
    "class_loss",
    "dense_losses",
    "depth_loss",
    "edges_loss",
    "load_trainable",
    "normals_loss",
    "number_loss",
    "saliency_loss",
    "sam2_config",
    "save_trainable",
    "segmentation_loss",
]
