"""Streets: segmentation and inverse depth: :class:`torchsims.data.Cityscapes`."""

from typing import ClassVar, final

from torchsims.data import Cityscapes
from torchsims.workloads._folders import FolderWorkload
from torchsims.workloads._presets import Presets, paper_presets

__all__ = ["CityscapesWorkload"]


@final
class CityscapesWorkload(FolderWorkload):
    """Streets: segmentation and inverse depth; options as in :class:`FolderWorkload`."""

    reader = Cityscapes
    presets: ClassVar[Presets] = paper_presets("cityscapes", epochs=100, tau=3, prox=1e-5, ratio=1)
