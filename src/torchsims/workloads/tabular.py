"""Tables: one prediction per row and task, from numbers and codes of categories."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from torchsims.workloads.base import Workload

TARGET = "target/"
"""Prefix of the labels in a batch: a task may be called ``numbers`` or ``codes``, like an input."""


class TabularWorkload(Workload):
    """Rows with numbers, codes of categories, and one label per task.

    A subclass sets these.

    Attributes:
        numbers: how many numbers a row has.
        codes: how many codes each categorical feature has.
    """

    architectures: ClassVar[tuple[str, ...]] = ("mlp", "sharedbottom", "mmoe", "ple", "esmm")
    inputs: ClassVar[tuple[str, ...]] = ("numbers", "codes")
    unit: ClassVar[str] = "rows"
    at_once: ClassVar[int] = 4096

    numbers: int
    codes: tuple[int, ...]

    def model_arguments(self) -> dict[str, Any]:
        """Return how many numbers, and how many codes of each category, a row has."""
        return {"numbers": self.numbers, "codes": self.codes}

    def example_inputs(self) -> tuple[Tensor, ...]:
        return torch.zeros(2, self.numbers), torch.zeros(2, len(self.codes), dtype=torch.int64)

    def targets(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the labels in a batch, by task."""
        return {name[len(TARGET) :]: values for name, values in batch.items() if name.startswith(TARGET)}
