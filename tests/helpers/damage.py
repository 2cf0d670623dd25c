"""Random edits of what a file holds: entries missing, of the wrong type, of the wrong shape, or truncated."""

import copy
from random import Random
from typing import Any

import torch
from torch import Tensor

STOP = 0.25  # probability with which an edit hits a container as a whole instead of one of its entries
OTHERS: tuple[Any, ...] = (None, -1, 10**30, 0.5, "text", [], {}, True, [None], {"a": 1}, "../..", float("nan"))


def damage(value: Any, chance: Random) -> tuple[str, Any]:
    """Return a description of a random edit and an edited copy of nested plain data with tensors."""
    root = {"": copy.deepcopy(value)}
    parent, key = _choose(root, chance)
    name, changed = _edit(parent[key], chance)
    path = f"{name} at {_path(root, parent)}/{key}"
    if name == "missing" and parent is not root:
        del parent[key]
    else:
        parent[key] = changed
    return path, root[""]


def _choose(root: Any, chance: Random) -> tuple[Any, Any]:
    parent, key = root, ""
    while True:
        inside = parent[key]
        if not isinstance(inside, dict | list) or not inside or (parent is not root and chance.random() < STOP):
            return parent, key
        parent, key = inside, chance.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))


def _edit(value: Any, chance: Random) -> tuple[str, Any]:
    kinds = ["missing", "other"]
    if isinstance(value, Tensor):
        kinds += ["shape", "dtype", "empty"] * 2
    elif isinstance(value, dict | list) and value:
        kinds += ["more", "empty"]
    elif isinstance(value, str):
        kinds += ["letters"]
    kind = chance.choice(kinds)
    if kind == "shape":
        return kind, value.reshape(-1)[: chance.randrange(1 + value.numel())].clone()
    if kind == "dtype":
        return kind, value.to(chance.choice([torch.int64, torch.complex64, torch.bool, torch.float16]))
    if kind == "empty":
        return kind, value.new_zeros(0) if isinstance(value, Tensor) else type(value)()
    if kind == "more":
        return kind, {**value, "more": 1} if isinstance(value, dict) else [*value, "more"]
    if kind == "letters":
        return kind, "".join(chance.sample(value, len(value)))
    other = copy.deepcopy(chance.choice(OTHERS))
    return f"{kind} {other!r}" if kind == "other" else kind, other


def _path(root: Any, parent: Any) -> str:
    """Return where a container is in a nested one."""
    if root is parent:
        return ""
    entries = root.items() if isinstance(root, dict) else enumerate(root) if isinstance(root, list) else ()
    for key, value in entries:
        if isinstance(value, dict | list):
            found = _path(value, parent)
            if found or value is parent:
                return f"/{key}{found}"
    return ""
