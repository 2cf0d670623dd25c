"""How many threads a small network is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

WORTH = 2**24  # multiplications of a batch, from which on a second thread pays


@contextmanager
def few_threads(network: nn.Module, batch_size: int) -> Iterator[None]:
    """Use one thread inside, where a second one costs more to wake up than it computes; bigger networks keep all."""
    before = torch.get_num_threads()
    work = batch_size * sum(p.numel() for p in network.parameters() if p.ndim == 2)
    torch.set_num_threads(1 if work < WORTH else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
