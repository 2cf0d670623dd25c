"""Converts the official Matlab file of NYUv2 to the layout of the reader, with normals computed from the depth."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d

from torchsims._extras import needs
from torchsims.data._files import read_file
from torchsims.data.folders._npy import SOURCE, write_frame
from torchsims.data.folders._views import full_view

FOCAL, CENTRE = (518.857901, 519.469611), (325.582245, 253.736166)  # x and y in pixels of the Kinect's 640 x 480
KEYS = ("images", "labels", "depths")
JUMP = 0.05  # relative deviation of the inverse depth from the line through its neighbours where a surface ends
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
    right, y down, z forward, as in :class:`Scenes`, and the vectors face the camera. The folder is
    renamed to ``root`` when it is complete.

    Args:
        mat: the official file, which is HDF5.
        root: folder to create; it should not exist.
        class_map: class of every label of the file, in order; the first entry is for unlabelled pixels. Negative
            classes are ignored.
        split: numbers of the images of ``"train"`` and of ``"val"``, counted from 0. Matlab counts from 1.
        resolution: height and width of the written images.

    Example:
        >>> convert_nyuv2("nowhere.mat", "nyuv2", class_map=[-1, 0], split={"train": [0], "val": [1]})
        Traceback (most recent call last):
        FileNotFoundError: File `nowhere.mat` should be there. Found no such file.
    """
    with needs("vision"):
        import h5py
    partial = Path(f"{Path(root)}.partial")
    for folder in (Path(root), partial):
        if folder.exists():
            raise FileExistsError(f"Folder `{folder}` should not exist before the conversion. Found one.")
    with read_file(Path(mat), "in the format HDF5", lambda path: h5py.File(path, "r")) as file:
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
    """Return one image and its labels; Matlab is column-major, so height and width are exchanged."""
    image = torch.from_numpy(file["images"][number].astype(np.float32) / 255).transpose(1, 2)
    labels = file["labels"][number].T.astype(np.int64)
    if labels.max() >= len(class_map):
        raise ValueError(
            f"Parameter `class_map` should have an entry for every label. "
            f"Found {len(class_map)} entries, and label {labels.max()} in image {number} of `{mat}`."
        )
    depth = torch.from_numpy(file["depths"][number].T.astype(np.float32)).unsqueeze(0)
    depth = depth.where(depth.isfinite(), 0.0)
    height, width = depth.shape[-2:]
    focal, centre = ((x * width / 640, y * height / 480) for x, y in (FOCAL, CENTRE))
    normals = normals_from_depth(depth, focal, centre)
    frame = {"image": image, "seg": torch.from_numpy(class_map[labels]), "depth": depth, "normals": normals}
    view = full_view((height, width), resolution)
    return {name: view.apply(name, value, depth_power=-1) for name, value in frame.items()}


def normals_from_depth(
    depth: Tensor, focal: tuple[float, float], centre: tuple[float, float], reach: int = 3
) -> Tensor:
    r"""Return the normals of the surfaces that a depth image shows.

    .. math::
        n = \frac{(X_{v+r} - X_{v-r}) \times (X_{u+r} - X_{u-r})}{|\cdot|}, \qquad
        X_{uv} = d_{uv} \left( \frac{u - c_x}{f_x}, \frac{v - c_y}{f_y}, 1 \right)

    - :math:`d` is the depth, `1 x height x width`, 0 where it is unknown, :math:`(u, v)` the centre of a pixel,
      :math:`f` is ``focal`` in pixels, :math:`c` is ``centre`` and :math:`r` is ``reach``. Each X is the mean over a
      square of :math:`2r + 1` pixels: exact on a plane, and it reduces noise.

    The unit vectors, `3 x height x width`, point towards the camera, x to the right, y down, z forward; they are zero
    where a depth within reach is unknown or jumps.
    """
    height, width = depth.shape[-2:]
    x = (torch.arange(width) + 0.5 - centre[0]) / focal[0]
    y = (torch.arange(height) + 0.5 - centre[1]) / focal[1]
    points = torch.cat([depth * x, depth * y[:, None], depth]).double()
    points = avg_pool2d(points, 2 * reach + 1, stride=1, padding=reach, count_include_pad=False)
    rows, columns = torch.arange(height), torch.arange(width)
    below, above = ((rows + step).clamp(0, height - 1) for step in (reach, -reach))
    right, left = ((columns + step).clamp(0, width - 1) for step in (reach, -reach))
    along_y = points[:, below] - points[:, above]
    along_x = points[:, :, right] - points[:, :, left]
    normals = torch.linalg.cross(along_y, along_x, dim=0)
    facing = torch.where((normals * points).sum(dim=0) > 0, -1.0, 1.0)
    length: Tensor = normals.norm(dim=0)
    known = _smooth(depth, 2 * reach) & (length > 0)
    units: Tensor = facing * normals / length.where(known, 1.0)
    return units.where(known, 0.0).to(depth.dtype)


def _smooth(depth: Tensor, reach: int) -> Tensor:
    """Return where all depths within the reach are known and none jumps, `height x width`.

    On any plane the inverse depth is linear in the coordinates of a pixel: its second differences are zero.
    """
    known = depth > 0
    inverse = 1 / depth.where(known, 1.0)
    rough = ~known
    for dim in (1, 2):
        length = depth.shape[dim] - 2
        before, here, after = (inverse.narrow(dim, start, length) for start in (0, 1, 2))
        rough.narrow(dim, 1, length).logical_or_((before + after - 2 * here).abs() > JUMP * here)
    return max_pool2d(rough.float(), 2 * reach + 1, stride=1, padding=reach)[0] == 0
