"""Networks with one output a task, and the losses of their tasks; they know no method.

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

from torchsims.models._binary_losses import edges_loss, saliency_loss
from torchsims.models._dense import HPS, STL
from torchsims.models._dense_losses import dense_losses, depth_loss, normals_loss, segmentation_loss
from torchsims.models._esmm import ESMM
from torchsims.models._lenet import LeNet, SeparateLeNets
from torchsims.models._mlp import MLP
from torchsims.models._mmoe import MMoE
from torchsims.models._ple import PLE
from torchsims.models._sam2 import SAM2MTL
from torchsims.models._sam2_configs import sam2_config
from torchsims.models._sam2_stl import SAM2STL
from torchsims.models._saving import load_trainable, save_trainable
from torchsims.models._shared_bottom import SharedBottom
from torchsims.models._singly import Singly
from torchsims.models._table_losses import class_loss, number_loss, table_losses

__all__ = [
    "ESMM",
    "HPS",
    "MLP",
    "PLE",
    "SAM2MTL",
    "SAM2STL",
    "STL",
    "LeNet",
    "MMoE",
    "SeparateLeNets",
    "SharedBottom",
    "Singly",
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
    "table_losses",
]
