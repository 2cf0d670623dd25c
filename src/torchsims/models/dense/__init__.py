"""Networks and losses for dense prediction: one output per pixel and task."""

from torchsims.models.dense.hps import HPS
from torchsims.models.dense.losses import (
    DENSE_LOSSES,
    dense_losses,
    depth_loss,
    edges_loss,
    normals_loss,
    saliency_loss,
    segmentation_loss,
)

__all__ = [
    "DENSE_LOSSES",
    "HPS",
    "dense_losses",
    "depth_loss",
    "edges_loss",
    "normals_loss",
    "saliency_loss",
    "segmentation_loss",
]
