"""Records of event files, with their checksums.

TensorBoard's own writer computes checksums byte by byte in Python: that takes longer than all else that it does.
"""

from functools import cache
from struct import pack
from typing import Any

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits reversed
MASK = 0xA282EAD8  # which the format adds
BLOCK = 256  # bytes that are looked up at once


def record(data: bytes) -> bytes:
    """Return a record: the length of the data, the data, and a checksum after each."""
    return _header(len(data)) + data + pack("<I", _masked(data))


@cache  # most records of a run have the same length
def _header(length: int) -> bytes:
    data = pack("<Q", length)
    return data + pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """Return the checksum CRC-32C.

    A byte contributes to it what depends on the byte and on the number of bytes after it alone: one entry of a table.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
    """
    tables, starts = _tables()
    crc = 0xFFFFFFFF
    for begin in range(0, len(data), BLOCK):
        block = data[begin : begin + BLOCK]
        mixed = (int.from_bytes(block[:4], "little") ^ crc).to_bytes(4, "little")[: len(block)] + block[4:]
        found = tables[np.frombuffer(mixed, np.uint8) + starts[-len(block) :]]
        crc = (crc >> 8 * len(block)) ^ int(np.bitwise_xor.reduce(found))
    return crc ^ 0xFFFFFFFF


@cache
def _tables() -> tuple[NDArray[np.uint32], NDArray[Any]]:
    """Return what every byte contributes at every place of a block, `place * 256 + byte`, and where places start."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ POLYNOMIAL, table >> 1)
    places = [table]
    for _ in range(BLOCK - 1):
        places.append(places[-1] >> 8 ^ table[places[-1] & 0xFF])
    return np.concatenate(places[::-1]), 256 * np.arange(BLOCK)
