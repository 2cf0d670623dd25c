r"""PASCAL-Context with 21 classes, parts of people, normals and saliency.

Read from ``ROOT/JPEGImages/*.jpg``, ``ImageSets/Context/{train,val}.txt`` (the names of the images), and the labels
``semseg/VOC12/*.png``, ``human_parts/*.mat``, ``normals_distill/*.png`` and ``sal_distill/*.png``; 4998 images to train
on and 5105 to validate on. Needs the extra ``[vision]``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from torchsims.data._files import as_classes, as_image, read_mat, read_pixels, unit_normals
from torchsims.data.folders._base import DenseFolder

VOID = 255
PERSON = 15  # the class of PASCAL VOC
# The 24 parts of a person that the files name, by label here; l and r are left and right, then l and u lower and upper.
PART_OF = {
    **dict.fromkeys(("head", "hair", "nose", "mouth", *(s + p for s in "lr" for p in ("eye", "ear", "ebrow"))), 1),
    **dict.fromkeys(("torso", "neck"), 2),
    **dict.fromkeys(("luarm", "ruarm"), 3),
    **dict.fromkeys(("llarm", "rlarm", "lhand", "rhand"), 4),
    **dict.fromkeys(("luleg", "ruleg"), 5),
    **dict.fromkeys(("llleg", "rlleg", "lfoot", "rfoot"), 6),
}


@final
class PASCALContext(DenseFolder):
    r"""The images and labels of PASCAL-Context in a folder.

    - ``seg``: a class per pixel; -1 where the file has 255.
    - ``parts``: background or one of six parts of people, merged from the 24 parts of the files. An image without a
      person that has parts is unlabelled: -1 everywhere.
    - ``normals``: :math:`2 v / 255 - 1` of the stored values, normalized; zero where the length was far from one.
    - ``saliency``: 1 where the stored value is above one half, else 0.

    Images have different sizes: all are resized to ``resolution``, 512 x 512 by default. Augmentation is that of
    :class:`NYUv2`.

    Example:
        >>> PASCALContext.missing("nowhere", "val", tasks=("seg", "parts"))
        ['`nowhere` (no such folder)']
    """

    NAME = "PASCAL-Context"
    CLASSES: ClassVar = (
        *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
        *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
    )
    PARTS: ClassVar = ("background", "head", "torso", "upper arm", "lower arm", "upper leg", "lower leg")
    CHANNELS: ClassVar = {"seg": len(CLASSES), "parts": len(PARTS), "normals": 3, "saliency": 1}
    FILES: ClassVar = {
        "image": ("JPEGImages", ".jpg"),
        "seg": ("semseg/VOC12", ".png"),
        "parts": ("human_parts", ".mat"),
        "normals": ("normals_distill", ".png"),
        "saliency": ("sal_distill", ".png"),
    }
    RESOLUTION = (512, 512)
    _pixels = staticmethod(read_pixels)

    @classmethod
    def _list(cls, root: Path, split: str, tasks: Sequence[str]) -> list[str]:
        file = f"ImageSets/Context/{split}.txt"
        if not (root / file).is_file():
            raise FileNotFoundError(f"`{file}` (no such file)")
        if not (names := (root / file).read_text().split()):
            raise FileNotFoundError(f"`{file}` (no name in it)")
        return names

    def _label(self, task: str, path: Path, size: tuple[int, int]) -> Tensor:
        if task == "parts":
            return _as_parts(read_mat(path), path, size)
        pixels = read_pixels(path)
        if task == "seg":
            return as_classes(pixels, path, len(self.CLASSES), VOID)
        if task == "normals" and pixels.ndim != 3:
            raise ValueError(f"File `{path}` should hold three colours per pixel. Found the shape {pixels.shape}.")
        colours = as_image(pixels, path)
        return unit_normals(2 * colours - 1) if task == "normals" else (colours[:1] > 0.5).float()


def _as_parts(variables: dict[str, Any], path: Path, size: tuple[int, int]) -> Tensor:
    """Return the part per pixel, 0 for none, `height x width`; -1 everywhere if no person has parts."""
    try:
        objects = _many(variables["anno"]["objects"])
        people = [_many(each["parts"]) for each in objects if int(each["class_ind"]) == PERSON]
        parts = [(str(part["part_name"]), np.asarray(part["mask"])) for person in people for part in person]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"File `{path}` should hold `anno.objects` with `class_ind` and `parts`. Found one without {error}."
        ) from error
    if not parts:
        return torch.full(size, -1)
    labels = np.zeros(parts[0][1].shape, dtype=np.int64)
    for name, mask in parts:
        if name not in PART_OF:
            raise ValueError(f"File `{path}` should name the 24 parts of a person. Found {name!r}.")
        if mask.shape != labels.shape or mask.ndim != 2:
            raise ValueError(
                f"File `{path}` should hold masks of one size. Found {labels.shape} and, of `{name}`, {mask.shape}."
            )
        labels[mask.astype(bool)] = PART_OF[name]
    return torch.from_numpy(labels)


def _many(values: Any) -> list[Any]:
    """Return structures as a list: scipy returns one as a dictionary, and none as an empty array."""
    return [values] if isinstance(values, dict) else list(values)
