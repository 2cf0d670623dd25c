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

from torchsims.models.catalogue import model_catalogue, parameter_table
from torchsims.models.dense.cross_stitch import CrossStitch
from torchsims.models.dense.densemtl import DenseMTL
from torchsims.models.dense.encoders import ENCODERS
from torchsims.models.dense.hps import HPS
from torchsims.models.dense.losses import (
    dense_losses,
    depth_loss,
    edges_loss,
    normals_loss,
    saliency_loss,
    segmentation_loss,
)
from torchsims.models.dense.mtan import MTAN
from torchsims.models.dense.nddr import NDDR
from torchsims.models.dense.network import DenseNetwork
from torchsims.models.dense.swinmtl import SwinMTL
from torchsims.models.dense.vtagml import VTAGML
from torchsims.models.lenet import LeNet
from torchsims.models.registry import MODELS, SINGLE_TASK, Architecture, network_name
from torchsims.models.regularized import Regularized, find_regularizer
from torchsims.models.sam2.configs import sam2_config
from torchsims.models.sam2.model import SAM2MTL
from torchsims.models.saving import load_trainable, save_trainable
from torchsims.models.single_task import SingleTask
from torchsims.models.tabular.esmm import ESMM
from torchsims.models.tabular.losses import class_loss, number_loss
from torchsims.models.tabular.mlp import MLP
from torchsims.models.tabular.mmoe import MMoE
from torchsims.models.tabular.ple import PLE
from torchsims.models.tabular.shared_bottom import SharedBottom

__all__ = [
    "ENCODERS",
    "ESMM",
    "HPS",
    "MLP",
    "MODELS",
    "MTAN",
    "NDDR",
    "PLE",
    "SAM2MTL",
    "SINGLE_TASK",
    "VTAGML",
    "Architecture",
    "CrossStitch",
    "DenseMTL",
    "DenseNetwork",
    "LeNet",
    "MMoE",
    "Regularized",
    "SharedBottom",
    "SingleTask",
    "SwinMTL",
    "class_loss",
    "dense_losses",
    "depth_loss",
    "edges_loss",
    "find_regularizer",
    "load_trainable",
    "model_catalogue",
    "network_name",
    "normals_loss",
    "number_loss",
    "parameter_table",
    "saliency_loss",
    "sam2_config",
    "save_trainable",
    "segmentation_loss",
]
