r"""MultiMNIST: two overlapping digits in one image; each is a task. From the files of MNIST, or of Fashion-MNIST.

As in Lin et al., Pareto Multi-Task Learning, NeurIPS 2019, an image has 36 x 36 pixels. The script of Sener and Koltun,
Multi-Task Learning as Multi-Objective Optimization, NeurIPS 2018, moves the second digit by 6 pixels instead of 8, and
then brings the image to 28 x 28.
"""

import gzip
from collections.abc import Iterator, Sequence
from math import prod
from os import PathLike
from pathlib import Path
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from torchsims.data._files import read_file

CLASSES = 10
CHANNELS = {"left": CLASSES, "right": CLASSES}
"""Number of classes, by task."""

SPLITS = ("train", "val", "test")
PREFIXES = {"train": ("train", "train30k"), "val": ("train", "train30k"), "test": ("t10k",)}
KINDS = {"images-idx3-ubyte": 3, "labels-idx1-ubyte": 1}
DIGIT, SIDE = 28, 36
UNSIGNED_BYTE = 8  # the third byte of the magic number; the fourth is the number of dimensions
GZIP = b"\x1f\x8b"
HELD_OUT = 10  # one in 10 training digits is for validation

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]


@final
class MultiMNIST(Dataset[dict[str, Tensor]]):
    """Two digits per image: pair number ``index`` of a split and seed is the same for any number of pairs.

    - ``image``: the maximum of a and b per pixel, where a has one digit at the top left and b the other at the bottom
      right; from 0 to 1, `1 x 36 x 36`.
    - ``left``, ``right``: the classes of the two digits.

    Each side goes through all digits of the split in random order, and then again in another order. A tenth of the
    training digits is in pairs of ``"val"`` and in no pair of ``"train"``.

    Args:
        root: the folder of ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, and the same with ``t10k`` for the
            test; also gzipped, with ``.gz``, and with ``train30k`` instead of ``train``.
        split: ``"train"``, ``"val"`` or ``"test"``.
        size: number of pairs; the number of digits of the split by default.
        seed: seed of the pairs, from 0 up.

    Attributes:
        images: images of all pairs as bytes, `pair x 36 x 36`.
        labels: classes of all pairs, `pair x 2`.
        digits: indices of their digits in the file, `pair x 2`.

    Example:
        >>> MultiMNIST.missing("nowhere", "test")
        ['t10k-images-idx3-ubyte', 't10k-labels-idx1-ubyte']
    """

    SIDE: ClassVar = SIDE

    def __init__(self, root: str | PathLike[str], split: str = "train", size: int | None = None, seed: int = 0) -> None:
        if split not in SPLITS:
            raise ValueError(f"Parameter `split` should be one of {', '.join(SPLITS)}. Found `split = {split!r}`.")
        if size is not None and not size >= 1:
            raise ValueError(f"Parameter `size` should be positive. Found `size = {size}`.")
        if not seed >= 0:
            raise ValueError(f"Parameter `seed` should not be negative. Found `seed = {seed}`.")
        if missing := self.missing(root, split):
            raise FileNotFoundError(f"Folder `{root}` should hold the files of MNIST. Missing: {', '.join(missing)}.")
        digits, classes = _read_digits(Path(root), split)
        self.digits = _draw(_digits_of(split, len(digits), seed), size, np.random.default_rng([seed, *split.encode()]))
        self.labels = torch.from_numpy(classes[self.digits].astype(np.int64))  # (pair, 2)
        self.images = torch.from_numpy(_overlay(digits[self.digits[:, 0]], digits[self.digits[:, 1]]))

    @classmethod
    def missing(cls, root: str | PathLike[str], split: str = "train") -> list[str]:
        """Return the names of the files that a folder lacks for a split."""
        found = [[f"{prefix}-{kind}" for kind in KINDS if not _find(root, prefix, kind)] for prefix in PREFIXES[split]]
        return min(found, key=len)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[0] for name, column in self.batch([index]).items()}

    def batch(self, items: Sequence[int]) -> dict[str, Tensor]:
        """Return some pairs, each field with a leading dimension."""
        rows = torch.from_numpy(np.asarray(items, dtype=np.int64))
        left, right = self.labels[rows].unbind(1)
        return {"image": self.images[rows].unsqueeze(1).float() / 255, "left": left, "right": right}


def _find(root: str | PathLike[str], prefix: str, kind: str) -> Path | None:
    names = (f"{prefix}-{kind}", f"{prefix}-{kind}.gz")
    return next((path for name in names if (path := Path(root) / name).is_file()), None)


def _read_digits(root: Path, split: str) -> tuple[Bytes, Bytes]:
    """Return images, `digit x 28 x 28`, and their classes, of the first prefix that has both files."""
    pairs: Iterator[list[Path | None]] = ([_find(root, prefix, kind) for kind in KINDS] for prefix in PREFIXES[split])
    images, labels = next([path for path in pair if path] for pair in pairs if all(pair))
    digits, classes = (_read_idx(path, n) for path, n in zip((images, labels), KINDS.values(), strict=True))
    if digits.shape[1:] != (DIGIT, DIGIT) or len(digits) < 2:
        count, height, width = digits.shape
        raise ValueError(
            f"File `{images}` should hold two or more images of 28 x 28. Found {count} of {height} x {width}."
        )
    if len(classes) != len(digits):
        raise ValueError(f"File `{labels}` should hold a label for each of {len(digits)} images. Found {len(classes)}.")
    if classes.max() >= CLASSES:
        raise ValueError(f"File `{labels}` should hold labels below {CLASSES}. Found {classes.max()}.")
    return digits, classes


def _digits_of(split: str, count: int, seed: int) -> Indices:
    if split == "test":
        return np.arange(count)
    order, held_out = np.random.default_rng(seed).permutation(count), max(1, count // HELD_OUT)
    return order[:held_out] if split == "val" else order[held_out:]


def _draw(digits: Indices, size: int | None, generator: np.random.Generator) -> Indices:
    """Return the left and the right digit of every pair, `pair x 2`; no digit repeats before all have come."""
    rounds = -(-(size or 1) // len(digits))
    sides = [[generator.permutation(digits), generator.permutation(digits)] for _ in range(rounds)]
    return np.concatenate([np.stack(pair, axis=1) for pair in sides])[:size]


def _overlay(left: Bytes, right: Bytes) -> Bytes:
    """Return the pixelwise maximum of digits at the top left and digits at the bottom right, `pair x 36 x 36`."""
    images = np.zeros((len(left), SIDE, SIDE), dtype=np.uint8)
    images[:, :DIGIT, :DIGIT] = left
    corner = images[:, -DIGIT:, -DIGIT:]
    np.maximum(corner, right, out=corner)
    return images


def _read_idx(path: Path, dimensions: int) -> Bytes:
    """Return the array of bytes in an idx file; whether it is gzipped is known by its content, not by its name."""
    content = read_file(path, "an idx file", _content)
    start = 4 + 4 * dimensions
    magic, expected = int.from_bytes(content[:4], "big"), 256 * UNSIGNED_BYTE + dimensions
    if len(content) < start:
        raise ValueError(
            f"File `{path}` should begin with {start} bytes of magic number and sizes. Found {len(content)} bytes."
        )
    if magic != expected:
        raise ValueError(f"File `{path}` should begin with the magic number {expected}. Found {magic}.")
    sizes = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    if len(values) != (length := prod(sizes)):
        shape = " x ".join(map(str, sizes))
        raise ValueError(f"File `{path}` should hold {shape} = {length} bytes after its sizes. Found {len(values)}.")
    return values.reshape(sizes)


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(GZIP) else content
