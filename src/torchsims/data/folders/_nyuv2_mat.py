"""From the official file of NYUv2, in which Matlab has put everything, to the layout that the reader reads."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsims._extras import needs
from torchsims.data.folders._depth_normals import normals_from_depth
from torchsims.data.folders._npy import SOURCE, write_frame
from torchsims.data.folders._views import whole_view

FOCAL, CENTRE = (518.857901, 519.469611), (325.582245, 253.736166)  # x and y in pixels of the Kinect's 640 x 480
KEYS = ("images", "labels", "depths")
DERIVED = "derived from the depth, not measured: a plane through the surrounding pixels; zero at jumps of the depth"


def convert_nyuv2(
    mat: str | PathLike[str],
    root: str | PathLike[str],
    class_map: Sequence[int],
    split: Mapping[str, Sequence[int]],
    resolution: tuple[int, int] = (288, 384),
) -> None:
    """Write the official ``nyu_depth_v2_labeled.mat`` as a folder that :class:`NYUv2` reads. Needs ``[vision]``.

    The file has no normals. They are derived from the depth, and ``source.json`` in the folder says so; x is to the
    right, y down, z forward, as in :class:`Scenes`, and the vectors face the camera. The folder appears when it is
    complete.

    Args:
        mat: the file, which is HDF5.
        root: the folder to make; it should not exist.
        class_map: the class of every label of the file, in order; the first entry is that of unlabelled pixels.
            Negative is to ignore.
        split: the numbers of the images of ``"train"`` and of ``"val"``, counted from 0. Matlab counts from 1.
        resolution: height and width to write.

    Example:
        >>> from torchsims.data import convert_nyuv2
        >>> convert_nyuv2("nowhere.mat", "nyuv2", class_map=[-1, 0], split={"train": [0], "val": [1]})
        Traceback (most recent call last):
            ...
        FileNotFoundError: File `nowhere.mat` should be the official file of NYUv2. Found no such file.
    """
    with needs("vision"):
        import h5py
    if not Path(mat).is_file():
        raise FileNotFoundError(f"File `{mat}` should be the official file of NYUv2. Found no such file.")
    partial = Path(f"{Path(root)}.partial")
    for folder in (Path(root), partial):
        if folder.exists():
            raise FileExistsError(f"Folder `{folder}` should not exist before the conversion. Found one.")
    try:
        file = h5py.File(mat, "r")
    except OSError as error:
        raise ValueError(
            f"File `{mat}` should be in the format HDF5. Found one that cannot be read: {error}."
        ) from error
    with file:
        _check(file, mat, split)
        for name, numbers in split.items():
            for place, number in enumerate(numbers):
                write_frame(partial, name, place, _frame(file, mat, int(number), np.asarray(class_map), resolution))
    said = {"file": Path(mat).name, "normals": DERIVED, "split": {k: [int(n) for n in v] for k, v in split.items()}}
    (partial / SOURCE).write_text(json.dumps(said, indent=1))
    partial.rename(root)


def _check(file: Any, mat: str | PathLike[str], split: Mapping[str, Sequence[int]]) -> None:
    for key in KEYS:
        if key not in file:
            raise ValueError(f"File `{mat}` should hold {', '.join(KEYS)}. Found no `{key}`.")
    images = file["images"].shape[0]
    for name, numbers in split.items():
        if name not in ("train", "val") or not len(numbers):
            raise ValueError(
                f"Parameter `split` should hold numbers for train and val. Found {len(numbers)} for {name!r}."
            )
        wrong = [int(number) for number in numbers if not 0 <= number < images]
        if wrong:
            raise ValueError(f"Parameter `split` should hold numbers from 0 to {images - 1}. Found {wrong[0]}.")


def _frame(
    file: Any, mat: str | PathLike[str], number: int, class_map: np.ndarray[Any, Any], resolution: tuple[int, int]
) -> dict[str, Tensor]:
    """Return one image and its labels; Matlab stores columns first, so height and width are exchanged."""
    image = torch.from_numpy(file["images"][number].astype(np.float32) / 255).transpose(1, 2)
    labels = file["labels"][number].T.astype(np.int64)
    if labels.max() >= len(class_map):
        raise ValueError(
            f"Parameter `class_map` should have an entry for every label. "
            f"Found {len(class_map)} entries, and label {labels.max()} in image {number} of `{mat}`."
        )
    depth = torch.from_numpy(file["depths"][number].T.astype(np.float32)).unsqueeze(0)
    depth = depth.where(depth.isfinite(), 0.0)
    full = (depth.shape[-2], depth.shape[-1])
    scale = full[1] / 640, full[0] / 480
    normals = normals_from_depth(
        depth, (FOCAL[0] * scale[0], FOCAL[1] * scale[1]), (CENTRE[0] * scale[0], CENTRE[1] * scale[1])
    )
    frame = {"image": image, "seg": torch.from_numpy(class_map[labels]), "depth": depth, "normals": normals}
    view = whole_view(full, resolution)
    return {name: view.show(name, value, depth_power=-1) for name, value in frame.items()}
