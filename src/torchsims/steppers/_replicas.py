"""Copies of one model on several ranks: made equal at construction, and compared now and then."""

from collections.abc import Callable, Iterable
from typing import final

import torch
from torch import Tensor, nn

from torchsims.steppers._distributed import Ranks

__all__ = ["ReplicaCheck", "make_equal"]

CHECK_EVERY = 1000
"""Number of steps from one comparison to the next; the first is in the first step."""

TOLERANCE = 0.01
"""Relative differences of parameters above this are no rounding errors, which differ between kinds of processors."""


def make_equal(model: nn.Module, ranks: Ranks) -> None:
    """Give every rank the parameters and buffers of the first one, as `DistributedDataParallel` does."""
    if ranks.size == 1 or ranks.wrapped:
        return
    tensors = {name: t for name, t in (*model.named_parameters(), *model.named_buffers()) if not t.is_meta}
    mine = {name: f"{tuple(t.shape)} of {t.dtype}" for name, t in tensors.items()}
    for rank, other in enumerate(ranks.gather(mine)):
        for name in mine.keys() | other.keys():
            if mine.get(name) != other.get(name):
                raise ValueError(
                    f"Every rank should have the same model. Found `{name}` with shape {mine.get(name)} here "
                    f"and {other.get(name)} on rank {rank}."
                )
    ranks.broadcast_first(list(tensors.values()))


@final
class ReplicaCheck:
    """Raises if parameters are not the same on all ranks, in the first step and in every thousandth.

    Two checksums per parameter are compared, the sum of its elements and that of their sizes. Sharded parameters are
    not compared: each rank has its own part of them.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks
        self._steps = 0

    def __call__(self, named: Callable[[], Iterable[tuple[str, Tensor]]]) -> None:
        due, self._steps = self._steps % CHECK_EVERY == 0, self._steps + 1
        if self._ranks.size == 1 or self._ranks.sharded or not due:
            return
        names, parameters = zip(*named(), strict=True)
        sums = torch.stack([_checksums(p).to(self._ranks.device) for p in parameters]).tolist()
        for rank, others in enumerate(self._ranks.gather(sums)):
            for name, p, mine, other in zip(names, parameters, sums, others, strict=True):
                # Relative errors e of n elements of size s change their sum by about e * s * sqrt(n).
                allowed = TOLERANCE * mine[1] / max(p.numel(), 1) ** 0.5
                if not max(abs(mine[0] - other[0]), abs(mine[1] - other[1])) <= allowed:
                    raise ValueError(
                        "The parameters should be the same on every rank. "
                        f"Found other values of {name} on rank {rank}: "
                        "load the same state on every rank, and let the method alone change parameters."
                    )


def _checksums(parameter: Tensor) -> Tensor:
    p = parameter.detach()
    p = torch.view_as_real(p) if p.is_complex() else p
    p = p.to(torch.promote_types(p.dtype, torch.float32))
    return torch.stack([p.sum(), p.abs().sum()]).float().nan_to_num()
