"""The parts of people in a file of PASCAL-Part: objects of an image, their parts, and a mask of each."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

PERSON = 15  # the class of PASCAL VOC
# The 24 parts of a person that the files name, by label here; l and r are left and right, then l and u lower and upper.
PART_OF = {
    **dict.fromkeys(("head", "hair", "nose", "mouth", *(s + p for s in "lr" for p in ("eye", "ear", "ebrow"))), 1),
    **dict.fromkeys(("torso", "neck"), 2),
    **dict.fromkeys(("luarm", "ruarm"), 3),
    **dict.fromkeys(("llarm", "rlarm", "lhand", "rhand"), 4),
    **dict.fromkeys(("luleg", "ruleg"), 5),
    **dict.fromkeys(("llleg", "rlleg", "lfoot", "rfoot"), 6),
}


def as_parts(variables: dict[str, Any], path: Path, size: tuple[int, int]) -> Tensor:
    """Return the part a pixel shows, 0 for none, `height x width`; -1 everywhere if no person has parts."""
    try:
        objects = _many(variables["anno"]["objects"])
        people = [_many(each["parts"]) for each in objects if int(each["class_ind"]) == PERSON]
        parts = [(str(part["part_name"]), np.asarray(part["mask"])) for person in people for part in person]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"File `{path}` should hold `anno.objects` with `class_ind` and `parts`. Found one without {error}."
        ) from error
    if not parts:
        return torch.full(size, -1)
    labels = np.zeros(parts[0][1].shape, dtype=np.int64)
    for name, mask in parts:
        if name not in PART_OF:
            raise ValueError(f"File `{path}` should name the 24 parts of a person. Found {name!r}.")
        if mask.shape != labels.shape or mask.ndim != 2:
            raise ValueError(
                f"File `{path}` should hold masks of one size. Found {labels.shape} and, of `{name}`, {mask.shape}."
            )
        labels[mask.astype(bool)] = PART_OF[name]
    return torch.from_numpy(labels)


def _many(values: Any) -> list[Any]:
    """Return structures as a list, however many there are: one comes as a dictionary, none as an empty array."""
    return [values] if isinstance(values, dict) else list(values)
