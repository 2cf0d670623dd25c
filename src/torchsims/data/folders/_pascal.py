r"""PASCAL-Context with 21 classes, parts of people, normals and saliency.

Read from ``ROOT/JPEGImages/*.jpg``, ``ImageSets/Context/{train,val}.txt`` (the names of the images), and the labels
``semseg/VOC12/*.png``, ``human_parts/*.mat``, ``normals_distill/*.png`` and ``sal_distill/*.png``; 4998 images to train
on and 5105 to validate on. Needs the extra ``[vision]``.
"""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import ClassVar, final

from torch import Tensor

from torchsims.data._files import as_classes, as_image, read_mat, read_pixels, unit_normals
from torchsims.data.folders._base import DenseFolder, lacking
from torchsims.data.folders._human_parts import as_parts

__all__ = ["PASCALContext"]

VOID = 255
PATHS = {
    "image": ("JPEGImages", ".jpg"),
    "seg": ("semseg/VOC12", ".png"),
    "parts": ("human_parts", ".mat"),
    "normals": ("normals_distill", ".png"),
    "saliency": ("sal_distill", ".png"),
}


@final
class PASCALContext(DenseFolder):
    r"""The images and labels of PASCAL-Context in a folder.

    - ``seg``: a class a pixel; -1 where the file says 255.
    - ``parts``: background or one of six parts of people, into which the files' 24 are gathered. An image without a
      person that has parts is not labelled at all: -1 everywhere.
    - ``normals``: :math:`2 v / 255 - 1` of the stored values, at length one; zero where the length was far from it.
    - ``saliency``: 1 where the stored value is above one half, else 0.

    Images have different sizes: all are brought to ``resolution``, whatever their shape was. Augmentation is that of
    :class:`NYUv2`.

    Args:
        root: the folder.
        split: ``"train"`` or ``"val"``.
        tasks: the labels to deliver beside the image, out of ``seg``, ``parts``, ``normals`` and ``saliency``; all if
            left out. Only their files need to be there.
        augment: whether to show random views; they depend on ``seed``, epoch and index alone, see ``set_epoch``.
        seed: any number from 0 up.
        resolution: height and width to bring all images to.

    Example:
        >>> PASCALContext.missing("nowhere", "val", tasks=("seg", "parts"))
        ['`nowhere` (no such folder)']
        >>> {task: PASCALContext.CHANNELS[task] for task in ("seg", "parts")}
        {'seg': 21, 'parts': 7}
    """

    NAME = "PASCAL-Context"
    CLASSES: ClassVar = (
        *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
        *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
    )
    PARTS: ClassVar = ("background", "head", "torso", "upper arm", "lower arm", "upper leg", "lower leg")
    CHANNELS: ClassVar = {"seg": len(CLASSES), "parts": len(PARTS), "normals": 3, "saliency": 1}

    def __init__(
        self,
        root: str | PathLike[str],
        split: str = "train",
        tasks: Sequence[str] | None = None,
        augment: bool = False,
        seed: int = 0,
        resolution: tuple[int, int] = (512, 512),
    ) -> None:
        super().__init__(root, split, tasks, augment, seed, resolution)

    @classmethod
    def _missing(cls, root: Path, split: str, tasks: Sequence[str]) -> Iterable[str]:
        if not _list(root, split).is_file():
            yield f"`{_list(root, split).relative_to(root)}` (no such file)"
            return
        names = _listed(root, split)
        if not names:
            yield f"`{_list(root, split).relative_to(root)}` (no name in it)"
        for kind in ("image", *tasks):
            folder, suffix = PATHS[kind]
            yield from lacking(root / folder, folder, [name + suffix for name in names])

    def _names(self) -> list[str]:
        return _listed(self.root, self.split)

    def _path(self, name: str, kind: str) -> Path:
        folder, suffix = PATHS[kind]
        return self.root / folder / (name + suffix)

    def _image(self, name: str) -> Tensor:
        path = self._path(name, "image")
        return as_image(read_pixels(path), path)

    def _label(self, name: str, task: str, size: tuple[int, int]) -> Tensor:
        path = self._path(name, task)
        if task == "parts":
            return as_parts(read_mat(path), path, size)
        pixels = read_pixels(path)
        if task == "seg":
            return as_classes(pixels, path, len(self.CLASSES), VOID)
        if task == "normals" and pixels.ndim != 3:
            raise ValueError(f"File `{path}` should hold three colours a pixel. Found the shape {pixels.shape}.")
        colours = as_image(pixels, path)
        return unit_normals(2 * colours - 1) if task == "normals" else (colours[:1] > 0.5).float()


def _list(root: Path, split: str) -> Path:
    return root / "ImageSets" / "Context" / f"{split}.txt"


def _listed(root: Path, split: str) -> list[str]:
    return _list(root, split).read_text().split()
