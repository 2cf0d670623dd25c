"""Data sets with labels for several tasks: files become tensors, nothing else.

- :mod:`torchsims.data.scenes`: rendered rooms, which need no download.
- :mod:`torchsims.data.folders`: NYUv2, Cityscapes and PASCAL-Context, read from your copy of the real data.
- :mod:`torchsims.data.digits`: MultiMNIST, pairs of overlapping digits from your copy of MNIST.
- :mod:`torchsims.data.tables`: CSV and Parquet files with several targets.
- :mod:`torchsims.data.clicks`: click logs such as Ali-CCP.
"""

from torchsims.data._files import read_image
from torchsims.data.digits import MultiMNIST
from torchsims.data.folders import Cityscapes, NYUv2, PASCALContext, convert_nyuv2, write_frame
from torchsims.data.scenes import Scenes

__all__ = [
    "Cityscapes",
    "MultiMNIST",
    "NYUv2",
    "PASCALContext",
    "Scenes",
    "convert_nyuv2",
    "read_image",
    "write_frame",
]
