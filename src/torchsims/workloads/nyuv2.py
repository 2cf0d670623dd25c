"""Rooms: segmentation, depth and normals: :class:`torchsims.data.NYUv2`."""

from typing import ClassVar, final

from torchsims.data import NYUv2
from torchsims.workloads._folders import FolderWorkload
from torchsims.workloads._presets import Presets, paper_presets

__all__ = ["NYUv2Workload"]


@final
class NYUv2Workload(FolderWorkload):
    """Rooms: segmentation, depth and normals; options as in :class:`FolderWorkload`."""

    reader = NYUv2
    presets: ClassVar[Presets] = paper_presets("nyuv2", epochs=100, tau=5, prox=1e-3, ratio=5)
