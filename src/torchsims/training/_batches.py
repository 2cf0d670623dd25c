"""Which items make up which step: a function of the seed and the epoch, so that nothing of it needs to be saved."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from torchsims.workloads import Batched

__all__ = ["load", "shards", "training_batches"]


def training_batches(items: int, batch: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the items of every step of an epoch, in a new order every epoch; what does not fill a batch is left out.

    Example:
        >>> training_batches(5, 2, seed=0, epoch=0)
        [[3, 1], [2, 4]]
        >>> training_batches(5, 2, seed=0, epoch=1)
        [[1, 4], [0, 2]]
    """
    if items < batch:
        raise ValueError(f"Parameter `batch` should be at most the number of items, {items}. Found `batch = {batch}`.")
    generator = torch.Generator().manual_seed(mix(seed, epoch))
    order = torch.randperm(items, generator=generator).tolist()
    return [order[start : start + batch] for start in range(0, items - batch + 1, batch)]


def shards(items: list[int], rank: int, ranks: int, parts: int) -> list[list[int]]:
    """Return the micro-batches of one rank; together those of all ranks are the batch.

    Example:
        >>> shards([5, 6, 7, 8, 9], rank=1, ranks=2, parts=2)
        [[6], [8]]
    """
    own = items[rank::ranks]
    if len(own) < parts:
        raise ValueError(
            f"Parameter `batch` should have an item for each of {ranks} ranks and {parts} micro-batches. "
            f"Found `batch = {len(items)}`."
        )
    return [own[part::parts] for part in range(parts)]


def load(dataset: Dataset[Any], batches: list[list[int]], workers: int) -> Iterator[Any]:
    """Yield the batches, each item with a leading dimension, loaded by ``workers`` processes or by this one."""
    if isinstance(dataset, Batched) and not workers:
        yield from map(dataset.batch, batches)
        return
    pin = torch.accelerator.is_available()
    try:
        yield from DataLoader(dataset, batch_sampler=batches, num_workers=workers, pin_memory=pin)
    except (ValueError, OSError) as error:  # a worker wraps the sentence into the text of a traceback
        *above, last = str(error).strip().splitlines() or [""]
        if not above:
            raise
        raise type(error)(last.partition(": ")[2]) from error


def mix(*numbers: int) -> int:
    """Return one seed out of several numbers, such that near numbers give seeds that have nothing in common."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:  # the finaliser of splitmix64
        state = (state ^ number) * 0xBF58476D1CE4E5B9 % 2**64
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
        state ^= state >> 31
    return state % 2**63
