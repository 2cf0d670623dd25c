"""Files of MNIST: a magic number, the sizes, and bytes; gzipped or not."""

import gzip
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from torchsims.data._files import read_file

__all__ = ["read_idx"]

Bytes = npt.NDArray[np.uint8]

UNSIGNED_BYTE = 8  # the third byte of the magic number; the fourth is the number of dimensions
GZIP = b"\x1f\x8b"


def read_idx(path: Path, dimensions: int) -> Bytes:
    """Return the array of bytes in a file; a file that was gzipped is known by its content, not by its name."""
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
