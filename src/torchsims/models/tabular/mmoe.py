"""Multi-gate mixture of experts."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from torchsims.models.tabular.base import TabularNetwork, mix_experts, perceptron


@final
class MMoE(TabularNetwork):
    r"""Experts that all tasks share, mixed by one gate per task (Ma et al., KDD 2018).

    .. math::
        y_k = \text{tower}_k \Big( \sum_e \operatorname{softmax}(W_k x)_e \, f_e(x) \Big)

    - :math:`x`: the features;
    - :math:`f_e`: expert :math:`e` of ``experts``, a perceptron of width ``expert``;
    - :math:`W_k`: the gate of task :math:`k`, linear and without a bias.

    Other arguments as in :class:`~torchsims.models.tabular.base.TabularNetwork`.

    Example:
        >>> model = MMoE({"ctr": 1, "cvr": 1}, numbers=2, codes=(5, 3), experts=3)
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        >>> {task: tuple(part.shape) for task, part in out.items()}
        {'ctr': (4, 1), 'cvr': (4, 1)}
    """

    def __init__(
        self,
        outputs: Mapping[str, int],
        numbers: int,
        codes: Sequence[int] = (),
        experts: int = 4,
        expert: int = 64,
        tower: int = 32,
        embedding: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(outputs, numbers, codes, embedding)
        if not experts >= 1:
            raise ValueError(f"Parameter `experts` should be positive. Found `experts = {experts}`.")
        width = self.features.width
        self.experts = nn.ModuleList([perceptron(width, [expert], dropout) for _ in range(experts)])
        self.gates = nn.ModuleList([nn.Linear(width, experts, bias=False) for _ in outputs])
        self._add_towers(expert, tower, outputs.values())

    def represent(self, x: Tensor) -> Sequence[Tensor]:
        """Return a mixture of the experts per task."""
        experts = torch.stack([expert(x) for expert in self.experts], dim=1)  # (row, expert, width)
        return [mix_experts(gate(x), experts) for gate in self.gates]
