"""Readers of single files, whose errors name the file, and conversions of arrays to tensors."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from torchsims._extras import needs
from torchsims._limits import TooLargeError, check_memory

Array = npt.NDArray[Any]
T = TypeVar("T")

ROUNDING = 1e-3  # of colours that were resized before
LONGEST = 1.5  # length of a normal; a rounded unit vector is never longer, colours from 0 to 255 are
SHORTEST = 0.5  # length of a normal; a shorter vector means that the normal is unknown


def read_npy(path: Path) -> Array:
    """Return the array in a ``.npy`` file."""
    return read_file(path, "an array of numpy", lambda file: np.load(file, allow_pickle=False))


def read_pixels(path: Path, upright: bool = False, outputs: int = 0) -> Array:
    """Return the pixels of an image, `height x width` or `height x width x channel`.

    An image that is ``upright`` has colours, or grey in 16 or 32 bits. The memory for the image and ``outputs`` numbers
    per pixel is checked before it is decoded.
    """
    with needs("vision"):
        from PIL import Image, ImageOps

    def load(file: Path) -> Array:
        bound, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None  # ours is in bytes, and can be raised
        try:
            with Image.open(file) as image:
                check_memory(4 * (4 + outputs) * image.width * image.height, file)
                if not upright:
                    return np.asarray(image)
                turned = ImageOps.exif_transpose(image)
                grey = turned.mode[0] in "IF"  # pillow would cut off what is brighter than 255
                return _sixteen_bits(np.asarray(turned if grey else turned.convert("RGB")))
        finally:
            Image.MAX_IMAGE_PIXELS = bound

    return read_file(path, "an image", load)


def _sixteen_bits(pixels: Array) -> Array:
    """Return pixels that pillow has in 32 bits, and the file in 16, as they are in the file."""
    fits = pixels.dtype == np.int32 and pixels.min(initial=0) >= 0 and pixels.max(initial=0) < 1 << 16
    return pixels.astype(np.uint16) if fits else pixels


def read_image(source: str | PathLike[str] | Array, outputs: int = 0) -> Tensor:
    """Return the colours of a photograph from 0 to 1, `3 x height x width`, upright.

    The source is a file in any format that pillow reads (extra ``[vision]``), or an array: colours `height x width x 3`
    or grey `height x width`, of 8 or 16 bits without sign, or from 0 to 1. A file that, with ``outputs`` numbers per
    pixel, needs more memory than the environment variable ``TORCHSIMS_MAX_GIB`` allows is an error.

    Example:
        >>> read_image(np.full((2, 4, 3), 51, dtype=np.uint8))[:, 0, 0]
        tensor([0.2000, 0.2000, 0.2000])
    """
    if isinstance(source, np.ndarray):
        return as_image(source, Path("image"))
    return as_image(read_pixels(Path(source), upright=True, outputs=outputs), Path(source))


def read_mat(path: Path) -> dict[str, Any]:
    """Return the variables in a Matlab file, structures as dictionaries."""
    with needs("vision"):
        from scipy.io import loadmat
    return read_file(path, "a file of Matlab", lambda file: loadmat(str(file), simplify_cells=True))


def read_file(path: Path, kind: str, load: Callable[[Path], T]) -> T:
    """Return what ``load`` returns for a file, or raise an error that names the file and the expected kind."""
    if not path.is_file():
        raise FileNotFoundError(f"File `{path}` should be there. Found no such file.")
    try:
        return load(path)
    except TooLargeError:
        raise
    except Exception as error:  # broken files raise whatever their decoder stumbles over
        reason = str(error).rstrip(".") or type(error).__name__
        raise ValueError(f"File `{path}` should be {kind}. Found one that cannot be read: {reason}.") from error


def as_image(array: Array, path: Path) -> Tensor:
    """Return colours from 0 to 1, `3 x height x width`, see :func:`read_image`."""
    if array.ndim == 2:  # grey
        array = np.stack([array] * 3, axis=-1)
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"File `{path}` should hold height x width x 3 colours. Found the shape {array.shape}.")
    image = torch.from_numpy(array.astype(np.float32)).movedim(2, 0).contiguous()
    if array.dtype in (np.uint8, np.uint16):
        return image / np.iinfo(array.dtype).max
    if not (image.min() >= -ROUNDING and image.max() <= 1 + ROUNDING):  # also if one is NaN
        low, high = image.min().item(), image.max().item()
        raise ValueError(f"File `{path}` should hold colours from 0 to 1. Found {low:g} to {high:g}.")
    return image.clamp(0.0, 1.0)


def as_classes(array: Array, path: Path, classes: int, void: int | None = None) -> Tensor:
    """Return labels from 0 up, or -1 where unlabelled, `height x width`; ``void`` also means unlabelled."""
    labels = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if labels.ndim != 2:
        raise ValueError(f"File `{path}` should hold one label per pixel. Found the shape {array.shape}.")
    if labels.dtype.kind == "f" and not np.array_equal(labels, np.floor(labels)):
        raise ValueError(f"File `{path}` should hold whole numbers. Found {labels[labels != np.floor(labels)][0]:g}.")
    result = torch.from_numpy(labels.astype(np.int64))
    if void is not None:
        result = result.where(result != void, -1)
    if result.max() >= classes:
        raise ValueError(f"File `{path}` should hold labels below {classes}. Found {int(result.max())}.")
    return result.clamp(min=-1)


def as_depth(array: Array, path: Path) -> Tensor:
    """Return depths, `1 x height x width`, 0 where unknown."""
    depth = array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array
    if depth.ndim != 2:
        raise ValueError(f"File `{path}` should hold one depth per pixel. Found the shape {array.shape}.")
    return _finite(torch.from_numpy(depth.astype(np.float32)), path).clamp(min=0).unsqueeze(0)


def as_normals(array: Array, path: Path) -> Tensor:
    """Return unit vectors, `3 x height x width`, zero where unknown."""
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"File `{path}` should hold height x width x 3 numbers. Found the shape {array.shape}.")
    normals = _finite(torch.from_numpy(array.astype(np.float32)), path).movedim(2, 0)
    length = normals.norm(dim=0)
    if length.max() > LONGEST:
        raise ValueError(f"File `{path}` should hold vectors of length 1 or 0. Found {length.max().item():g}.")
    return unit_normals(normals)


def unit_normals(normals: Tensor) -> Tensor:
    """Return normalized vectors, or zero where their length is far from one, `3 x height x width`."""
    length: Tensor = normals.norm(dim=0)
    known = (length >= SHORTEST) & (length <= LONGEST)
    return (normals / length.clamp(min=SHORTEST)).where(known, 0.0)


def _finite(values: Tensor, path: Path) -> Tensor:
    if not values.isfinite().all():
        found = values[~values.isfinite()][0].item()
        raise ValueError(f"File `{path}` should hold finite numbers. Found {found}.")
    return values
