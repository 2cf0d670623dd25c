"""Progressive layered extraction."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from torchsims.models.tabular.base import TabularNetwork, mix_experts, perceptron


class _Extraction(nn.Module):
    """One level: every stream has experts; a task mixes its own and the shared ones, the shared stream mixes all.

    The streams are those of the tasks in order, and then the shared one.
    """

    def __init__(self, tasks: int, width: int, experts: int, expert: int, last: bool, dropout: float) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            [nn.ModuleList([perceptron(width, [expert], dropout) for _ in range(experts)]) for _ in range(tasks + 1)]
        )
        # Nobody reads the shared stream of the last level.
        sizes = [2 * experts] * tasks + ([] if last else [(tasks + 1) * experts])
        self.gates = nn.ModuleList([nn.Linear(width, size, bias=False) for size in sizes])

    def forward(self, streams: Sequence[Tensor]) -> list[Tensor]:
        found = [  # (row, expert, width), per stream
            torch.stack([expert(stream) for expert in experts], dim=1)  # type: ignore[attr-defined]  # a ModuleList
            for stream, experts in zip(streams, self.experts, strict=True)
        ]
        *own, shared = found
        seen = [*([part, shared] for part in own), found]
        return [
            mix_experts(gate(stream), torch.cat(parts, dim=1))
            for gate, stream, parts in zip(self.gates, streams, seen, strict=False)  # the last level has one gate less
        ]


@final
class PLE(TabularNetwork):
    """Progressive layered extraction: experts of each task beside shared ones, in levels (Tang et al., RecSys 2020).

    At every level the gate of a task mixes its own experts and the shared ones; the gate of the shared stream mixes
    all experts. One tower per task stands on the last level. With ``levels=1`` it is CGC. There are ``experts`` experts
    of width ``expert`` per stream and level; other arguments as in
    :class:`~torchsims.models.tabular.base.TabularNetwork`.

    Example:
        >>> model = PLE({"ctr": 1, "cvr": 1}, numbers=2, codes=(5, 3), levels=2)
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'ctr': (4, 1), 'cvr': (4, 1)}
    """

    def __init__(
        self,
        outputs: Mapping[str, int],
        numbers: int,
        codes: Sequence[int] = (),
        levels: int = 1,
        experts: int = 2,
        expert: int = 64,
        tower: int = 32,
        embedding: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(outputs, numbers, codes, embedding)
        for name, value in (("levels", levels), ("experts", experts)):
            if not value >= 1:
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        widths = [self.features.width] + [expert] * (levels - 1)
        self.levels = nn.ModuleList(
            [_Extraction(len(outputs), w, experts, expert, i == levels - 1, dropout) for i, w in enumerate(widths)]
        )
        self._add_towers(expert, tower, outputs.values())

    def represent(self, x: Tensor) -> Sequence[Tensor]:
        """Return the streams of the tasks after the last level."""
        streams = [x] * (len(self.tasks) + 1)
        for level in self.levels:
            streams = level(streams)
        return streams
