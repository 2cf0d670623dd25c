from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from torchsims._specs import choose, convert, parameters, split_spec
from torchsims.models import ESMM, MLP, PLE, MMoE, SharedBottom
from torchsims.workloads._base import Batch, Workload

__all__ = ["TabularWorkload"]

AT_ONCE = 4096  # rows of a forward pass without a graph


class TabularWorkload(Workload):
    """One prediction a row and task, from numbers and codes.

    A subclass sets these.

    Attributes:
        outputs: how many outputs a network has for every task, by name.
        width: how many numbers a row has.
        codes: how many codes each categorical feature has.
    """

    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {
        "mlp": MLP,
        "sharedbottom": SharedBottom,
        "mmoe": MMoE,
        "ple": PLE,
        "esmm": ESMM,
    }

    outputs: Mapping[str, int]
    width: int
    codes: tuple[int, ...]

    def model(self, text: str) -> nn.Module:
        name, options = split_spec(text)
        kind: Any = self.architectures[choose("model", name, self.architectures)]
        network: nn.Module = kind(
            self.outputs, self.width, self.codes, **convert(f"model `{name}`", options, parameters(kind))
        )
        return network

    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        predictions: dict[str, Tensor] = model(batch["numbers"], batch["codes"])
        return predictions
