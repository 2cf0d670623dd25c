"""Noise in the files of MNIST."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
SIZES = {"train": 120, "t10k": 40}
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def idx(array: Bytes) -> bytes:
    """Return an array in the format of MNIST."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.tobytes()


def make_digits(prefix: str) -> tuple[Bytes, Bytes]:
    """Return noise, so that eight rows of it tell a digit from all others, and classes."""
    generator = np.random.default_rng(SIZES[prefix])
    count = SIZES[prefix]
    return generator.integers(0, 256, (count, 28, 28), np.uint8), generator.integers(0, 10, count, np.uint8)


def write_digits(folder: Path) -> Path:
    """Write the four files into a new folder, and return it."""
    folder.mkdir()
    for prefix in SIZES:
        for kind, array in zip(("images-idx3", "labels-idx1"), make_digits(prefix), strict=True):
            (folder / f"{prefix}-{kind}-ubyte").write_bytes(idx(array))
    return folder
