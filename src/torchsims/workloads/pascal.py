"""Photographs: segmentation, parts of people, normals and saliency: :class:`torchsims.data.PASCALContext`."""

from typing import ClassVar, final

from torchsims.data import PASCALContext
from torchsims.workloads._folders import FolderWorkload
from torchsims.workloads._presets import Presets, paper_presets

__all__ = ["PASCALWorkload"]


@final
class PASCALWorkload(FolderWorkload):
    """Photographs: segmentation, parts of people, normals and saliency; options as in :class:`FolderWorkload`."""

    reader = PASCALContext
    presets: ClassVar[Presets] = paper_presets("pascal", epochs=30, tau=3, prox=1e-5, ratio=1)
