"""Norms, shares and cosines from the inner products of gradients."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

__all__ = ["cosines", "cosines_with_sum", "layer_groups", "mean_known", "norms", "shares", "total"]

MOST_GROUPS = 12
WHOLE = "(model)"


def total(products: Iterable[Tensor], tasks: int) -> Tensor:
    """Return the inner products by all parameters, `m x m`, from those by each."""
    parts = list(products)
    return torch.stack(parts).sum(0) if parts else torch.full((tasks, tasks), torch.nan, dtype=torch.float64)


def norms(gramian: Tensor) -> Tensor:
    """Return the lengths of the gradients, `m`."""
    return gramian.diagonal().clamp(min=0).sqrt()


def shares(lengths: Tensor) -> Tensor:
    """Return the shares in the sum of all lengths that are known, `m`; NaN where one is not, or all are zero."""
    return lengths / lengths.nansum()


def cosines(gramian: Tensor) -> Tensor:
    """Return the cosines of all pairs, `m x m`; NaN where a gradient is zero or not known."""
    length = norms(gramian)
    unit = length.where(length > 0, torch.nan)
    return (gramian / unit[:, None] / unit).clamp(-1, 1)


def cosines_with_sum(gramian: Tensor) -> Tensor:
    """Return the cosines of the gradients and the sum of those that are known, `m`."""
    products = gramian.nansum(1).where(~gramian.diagonal().isnan(), torch.nan)
    whole = gramian.nansum().clamp(min=0).sqrt()
    length = norms(gramian)
    return (products / length.where(length > 0, torch.nan) / whole.where(whole > 0, torch.nan)).clamp(-1, 1)


def mean_known(values: Sequence[Tensor]) -> Tensor:
    """Return the mean over the batches in which a number is known."""
    return torch.stack(list(values)).nanmean(0)


def layer_groups(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of parameters by layer group, in order: the children of the module that holds all of them.

    An item of a list of modules is a group of its own. Neighbours are joined if there would be more than twelve.

    Example:
        >>> layer_groups(["net.stem.weight", "net.blocks.0.a.weight", "net.blocks.1.a.weight", "net.blocks.1.a.bias"])
        {'net.stem': ['net.stem.weight'], 'net.blocks.0': ['net.blocks.0.a.weight'],
         'net.blocks.1': ['net.blocks.1.a.weight', 'net.blocks.1.a.bias']}
    """
    paths = [name.split(".")[:-1] for name in names]
    depth = 0
    while paths and all(len(path) > depth and path[depth] == paths[0][depth] for path in paths):
        depth += 1
    groups: dict[str, list[str]] = {}
    for name, path in zip(names, paths, strict=True):
        end = depth + 1 + (len(path) > depth + 1 and path[depth + 1].isdecimal())
        groups.setdefault(".".join(path[:end]) or WHOLE, []).append(name)
    size = -(-len(groups) // MOST_GROUPS)
    if size <= 1:
        return groups
    titles = list(groups)
    chunks = [titles[i : i + size] for i in range(0, len(titles), size)]
    return {
        chunk[0] if len(chunk) == 1 else f"{chunk[0]} to {chunk[-1]}": [n for title in chunk for n in groups[title]]
        for chunk in chunks
    }
