"""Which items make up which step: a function of the seed and the epoch, so that nothing of it needs to be saved."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final, overload

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from torchsims.training.seeding import mix
from torchsims.workloads import Batched


@final
class Batches(Sequence[list[int]]):
    """The items of some steps as one tensor, listed step by step: 84 million items take 336 MB.

    Args:
        rows: the items of every step, `step x batch`.
    """

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> list[int]: ...

    @overload
    def __getitem__(self, index: slice) -> "Batches": ...

    def __getitem__(self, index: int | slice) -> "list[int] | Batches":
        if isinstance(index, slice):
            return Batches(self._rows[index])
        items: list[int] = self._rows[index].tolist()
        return items


def training_batches(items: int, batch: int, seed: int, epoch: int) -> Batches:
    """Return the items of every step of an epoch, in a new order every epoch; what does not fill a batch is left out.

    Example:
        >>> list(training_batches(5, 2, seed=0, epoch=0))
        [[3, 1], [2, 4]]
        >>> list(training_batches(5, 2, seed=0, epoch=1))
        [[1, 4], [0, 2]]
    """
    steps = count_batches(items, batch)
    generator = torch.Generator().manual_seed(mix(seed, epoch))
    whole = torch.int32 if items <= torch.iinfo(torch.int32).max else torch.int64  # the order is the same in both
    order = torch.randperm(items, generator=generator, dtype=whole)
    return Batches(order[: steps * batch].view(steps, batch))


def count_batches(items: int, batch: int) -> int:
    """Return how many steps an epoch has; at least one."""
    if items < batch:
        raise ValueError(f"Parameter `batch` should be at most the number of items, {items}. Found `batch = {batch}`.")
    return items // batch


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


def load_batches(dataset: Dataset[Any], batches: Iterable[list[int]], workers: int) -> Iterator[Any]:
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
