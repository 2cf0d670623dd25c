from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from torchsims._specs import choose, convert, join_spec, parameters, split_spec
from torchsims.models import ESMM, MLP, PLE, MMoE, SharedBottom, Singly
from torchsims.workloads._base import Batch, Workload

__all__ = ["TabularWorkload"]

AT_ONCE = 4096  # rows of a forward pass without a graph
STL = "stl"
ALONE: dict[str, type[nn.Module]] = {
    "mlp": MLP,
    "sharedbottom": SharedBottom,
    "mmoe": MMoE,
    "ple": PLE,
    "esmm": SharedBottom,
}
"""What a network is for one task alone: ESMM has no product then, and is a tower."""


class TabularWorkload(Workload):
    """One prediction a row and task, from numbers and codes.

    The model ``stl`` is one network a task; its option ``of`` says which, and it has the options of that one.

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
        STL: Singly,
    }

    outputs: Mapping[str, int]
    width: int
    codes: tuple[int, ...]

    def model(self, text: str) -> nn.Module:
        name, options = split_spec(text)
        kind: Any = self.architectures[choose("model", name, self.architectures)]
        if name == STL:
            kind = ALONE[choose("network of model `stl`", options.pop("of", "mlp"), ALONE)]
        values = convert(f"model `{name}`", options, parameters(kind))

        def make(outputs: Mapping[str, int]) -> nn.Module:
            network: nn.Module = kind(outputs, self.width, self.codes, **values)
            return network

        return Singly(self.outputs, make) if name == STL else make(self.outputs)

    def like(self, name: str, model: str) -> str:
        of, options = split_spec(model)
        return join_spec(STL, {"of": of, **options}) if name == STL and of in ALONE else super().like(name, model)

    def predict(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        predictions: dict[str, Tensor] = model(batch["numbers"], batch["codes"])
        return predictions
