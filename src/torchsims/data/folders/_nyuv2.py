r"""NYUv2: rooms with 13 classes, depth and normals, from ``ROOT/{train,val}/{image,label,depth,normal}/{i}.npy``.

Usually 288 x 384 pixels, 795 images to train on and 654 to validate on. Labels as in :mod:`torchsims.data.scenes`.
"""

from typing import ClassVar, final

from torchsims.data.folders._npy import NpyFolder

__all__ = ["NYUv2"]


@final
class NYUv2(NpyFolder):
    r"""The images and labels of NYUv2 in a folder.

    - ``image``: colours from 0 to 1, stored `height x width x 3`.
    - ``seg``: a class a pixel; negative where there is none.
    - ``depth``: metres; 0 where there is none.
    - ``normals``: unit vectors; zero where there is none.

    Augmentation shows a random part at a zoom of 1, 1.2 or 1.5, with the depth divided by it, and mirrors every second
    image, with :math:`n_x` negated. Labels are never mixed: each new pixel has the label of one old pixel.

    Args:
        root: the folder.
        split: ``"train"`` or ``"val"``.
        tasks: the labels to deliver beside the image, out of ``seg``, ``depth`` and ``normals``; all if left out. Only
            their files need to be there.
        augment: whether to show random views; they depend on ``seed``, epoch and index alone, see ``set_epoch``.
        seed: any number from 0 up.
        resolution: height and width to bring all images to; as stored if left out.

    Example:
        >>> import tempfile
        >>> from torchsims.data import NYUv2, Scenes, write_frame
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for number in range(4):
        ...         write_frame(folder, "train", number, Scenes(size=4, resolution=(48, 64))[number])
        ...     data = NYUv2(folder, "train", tasks=("seg", "depth"), augment=True)
        ...     data.set_epoch(3)
        ...     shapes = {name: tuple(value.shape) for name, value in data[0].items()}
        ...     missing = NYUv2.missing(folder, "val", tasks=("seg",))
        >>> shapes, data.channels
        ({'image': (3, 48, 64), 'seg': (48, 64), 'depth': (1, 48, 64)}, {'seg': 13, 'depth': 1})
        >>> missing
        ['`val` (no folder val/image, val/label with a file)']
    """

    NAME = "NYUv2"
    CLASSES: ClassVar = (
        *("bed", "books", "ceiling", "chair", "floor", "furniture", "objects"),
        *("picture", "sofa", "table", "tv", "wall", "window"),
    )
    CHANNELS: ClassVar = {"seg": len(CLASSES), "depth": 1, "normals": 3}
