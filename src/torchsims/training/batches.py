"""Which items make up which step: a function of the seed and the epoch, so that nothing of it needs to be saved."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from torchsims.training.seeding import mix
from torchsims.workloads import Batched, InMemory, Items

AHEAD = 16  # batches of data in memory that are read together: one by one, between steps, each takes twice as long
Part = TypeVar("Part", list[int], NDArray[np.integer[Any]])


def training_batches(items: int, batch: int, seed: int, epoch: int) -> Tensor:
    """Return the items of every step of an epoch, `step x batch`: 84 million items take 336 MB.

    The order is new every epoch; what does not fill a batch is left out.
    """
    steps = count_batches(items, batch)
    generator = torch.Generator().manual_seed(mix(seed, epoch))
    whole = torch.int32 if items <= torch.iinfo(torch.int32).max else torch.int64  # the order is the same in both
    order = torch.randperm(items, generator=generator, dtype=whole)
    return order[: steps * batch].view(steps, batch)


def count_batches(items: int, batch: int) -> int:
    """Return how many steps an epoch has; at least one."""
    if items < batch:
        raise ValueError(f"Parameter `batch` should be at most the number of items, {items}. Found `batch = {batch}`.")
    return items // batch


def shards(items: Part, rank: int, ranks: int, parts: int) -> list[Part]:
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


def load_batches(dataset: Dataset[Any], batches: Iterable[Items], workers: int) -> Iterator[Any]:
    """Yield the batches, each item with a leading dimension, loaded by ``workers`` processes or by this one."""
    if isinstance(dataset, Batched) and not workers:
        wide = (np.asarray(batch, np.int64) for batch in batches)  # offsets in a file may not fit into 32 bits
        loaded = map(dataset.batch, wide)
        while found := list(islice(loaded, AHEAD if isinstance(dataset, InMemory) else 1)):
            yield from found
        return
    pin = torch.accelerator.is_available()
    sampler = (list(map(int, batch)) for batch in batches)
    try:
        yield from DataLoader(dataset, batch_sampler=sampler, num_workers=workers, pin_memory=pin)
    except (ValueError, OSError) as error:  # a worker wraps the sentence into the text of a traceback
        *above, last = str(error).strip().splitlines() or [""]
        if not above:
            raise
        raise type(error)(last.partition(": ")[2]) from error
