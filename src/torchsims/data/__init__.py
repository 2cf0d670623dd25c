"""Data sets for several tasks; they know no method.

``Scenes`` is rendered and needs no download. ``NYUv2``, ``Cityscapes`` and ``PASCALContext`` read your copy of the real
data from a folder, and ``MultiMNIST`` overlays pairs of digits of your copy of MNIST.
"""

from torchsims.data._depth_normals import normals_from_depth
from torchsims.data._files import as_image, read_image
from torchsims.data._npy_folder import write_frame
from torchsims.data._nyuv2_mat import convert_nyuv2
from torchsims.data.cityscapes import Cityscapes
from torchsims.data.multimnist import MultiMNIST
from torchsims.data.nyuv2 import NYUv2
from torchsims.data.pascal import PASCALContext
from torchsims.data.scenes import Scenes, back_project

__all__ = [
    "Cityscapes",
    "MultiMNIST",
    "NYUv2",
    "PASCALContext",
    "Scenes",
    "as_image",
    "back_project",
    "convert_nyuv2",
    "normals_from_depth",
    "read_image",
    "write_frame",
]
