r"""Cityscapes: streets with 7 classes and inverse depth, from ``ROOT/{train,val}/{image,label,depth}/{i}.npy``.

Usually 128 x 256 pixels, 2975 images to train on and 500 to validate on. Labels as in :mod:`torchsims.data.scenes`.
"""

from typing import ClassVar, final

from torchsims.data.folders._npy import NpyFolder

__all__ = ["Cityscapes"]


@final
class Cityscapes(NpyFolder):
    r"""The images and labels of Cityscapes in a folder.

    - ``image``: colours from 0 to 1, stored `height x width x 3`.
    - ``seg``: a class a pixel; negative where there is none.
    - ``depth``: the *inverse* depth; 0 where there is none.

    Augmentation shows a random part at a zoom of 1, 1.2 or 1.5 and mirrors every second image. What is shown larger
    seems nearer, so the inverse depth is multiplied by the zoom; the usual code divides it, as it does a depth.

    Args:
        root: the folder.
        split: ``"train"`` or ``"val"``.
        tasks: the labels to deliver beside the image, out of ``seg`` and ``depth``; all if left out.
        augment: whether to show random views; they depend on ``seed``, epoch and index alone, see ``set_epoch``.
        seed: any number from 0 up.
        resolution: height and width to bring all images to; as stored if left out.

    Example:
        >>> import tempfile
        >>> from torchsims.data import Cityscapes, Scenes, write_frame
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     scene = Scenes(size=1, resolution=(32, 64), tasks=("seg", "depth"))[0]
        ...     write_frame(folder, "val", 0, {**scene, "seg": scene["seg"].clamp(max=6)})
        ...     data = Cityscapes(folder, "val")
        ...     shapes = {name: tuple(value.shape) for name, value in data[0].items()}
        >>> shapes, data.channels
        ({'image': (3, 32, 64), 'seg': (32, 64), 'depth': (1, 32, 64)}, {'seg': 7, 'depth': 1})
    """

    NAME = "Cityscapes"
    CLASSES: ClassVar = ("flat", "construction", "object", "nature", "sky", "human", "vehicle")
    CHANNELS: ClassVar = {"seg": len(CLASSES), "depth": 1}
    DEPTH_POWER = 1
