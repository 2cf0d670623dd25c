"""Readers for NYUv2, Cityscapes and PASCAL-Context, and what writes their layout.

A reader lists what is missing in a folder and reads images and labels on demand. Its random views depend on the seed,
the epoch and the index alone.
"""

from torchsims.data.folders._npy import Cityscapes, NYUv2, write_frame
from torchsims.data.folders._nyuv2_mat import convert_nyuv2
from torchsims.data.folders._pascal import PASCALContext

__all__ = ["Cityscapes", "NYUv2", "PASCALContext", "convert_nyuv2", "write_frame"]
