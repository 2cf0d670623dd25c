"""Many tensors as a few flat ones, so that ranks exchange them in few collectives."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

__all__ = ["buckets", "unflatten"]

_BYTES = 25 * 2**20  # per bucket, as in DistributedDataParallel


def buckets(tensors: Iterable[Tensor]) -> Iterator[tuple[list[Tensor], Tensor]]:
    """Yield groups of tensors of one kind with their values in one flat tensor each."""
    for _, group in groupby(sorted(tensors, key=_kind), key=_kind):
        bucket: list[Tensor] = []
        size = 0
        for tensor in group:
            bucket.append(tensor)
            size += tensor.numel() * tensor.element_size()
            if size >= _BYTES:
                yield bucket, torch.cat([t.detach().reshape(-1) for t in bucket])
                bucket, size = [], 0
        if bucket:
            yield bucket, torch.cat([t.detach().reshape(-1) for t in bucket])


def _kind(tensor: Tensor) -> tuple[str, str]:
    return str(tensor.dtype), str(tensor.device)


@torch.no_grad()
def unflatten(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Give the values of a flat tensor back to the tensors that it was made of."""
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()
