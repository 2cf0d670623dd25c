"""Low-rank adapters of a frozen linear layer: MultiLoRA, and the tensors of MTSAM. LoRA is peft's."""

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class MultiLoRA(nn.Module):
    r"""Several parallel low-rank adapters of a linear layer, each with a scale per output.

    .. math:: W x + s \sum_{i=1}^n \sigma_i \odot B_i A_i \, \mathrm{dropout}(x)

    - :math:`A_i \in \mathbb{R}^{r \times k}`, :math:`B_i \in \mathbb{R}^{d \times r}`: Kaiming uniform at the start.
    - :math:`\sigma_i \in \mathbb{R}^d`: zero at the start, so that the first step moves nothing else.

    Args:
        base: the linear layer, which is frozen.
        rank: the rank :math:`r` of each adapter.
        parallel: the number :math:`n` of adapters.
        scaling: the factor :math:`s`.
        dropout: dropout of the inputs.
    """

    def __init__(self, base: nn.Linear, rank: int, parallel: int, scaling: float, dropout: float) -> None:
        super().__init__()
        self.base_layer, self.scaling = base.requires_grad_(False), scaling
        self.dropout = nn.Dropout(dropout)
        self.lora_A = nn.Parameter(base.weight.new_empty(parallel, rank, base.in_features))
        self.lora_B = nn.Parameter(base.weight.new_empty(parallel, base.out_features, rank))
        self.lora_scale = nn.Parameter(base.weight.new_zeros(parallel, base.out_features))
        for matrix in (*self.lora_A.detach(), *self.lora_B.detach()):
            nn.init.kaiming_uniform_(matrix, a=sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """Return `... x out`: the adapters are computed as one of rank `n r`."""
        up = (self.lora_scale.unsqueeze(-1) * self.lora_B).movedim(0, 1).flatten(1)  # (out, n r)
        out: Tensor = self.base_layer(x)
        return out + self.scaling * linear(linear(self.dropout(x), self.lora_A.flatten(0, 1)), up)


class TaskTensor(nn.Module):
    r"""A low-rank adapter of a linear layer for every task, all made of one tensor, as in MTSAM.

    .. math:: W x + s \, U_2 M_t^\top U_1^\top \mathrm{dropout}(x), \qquad M_t = \sum_v U_{3,tv} G_v

    - :math:`U_1 \in \mathbb{R}^{k \times r}`, :math:`U_2 \in \mathbb{R}^{d \times r}`,
      :math:`U_3 \in \mathbb{R}^{T \times q}`: N(0, 1) at the start.
    - :math:`G_v \in \mathbb{R}^{r \times r}` for :math:`v = 1, \ldots, q`: zero at the start.

    Args:
        base: the linear layer, which is frozen.
        tasks: the number :math:`T` of tasks.
        rank: the rank :math:`r`.
        task_rank: the number :math:`q` of matrices that the tasks combine.
        scaling: the factor :math:`s`.
        dropout: dropout of the inputs.
    """

    def __init__(self, base: nn.Linear, tasks: int, rank: int, task_rank: int, scaling: float, dropout: float) -> None:
        super().__init__()
        self.base_layer, self.tasks, self.scaling = base.requires_grad_(False), tasks, scaling
        self.dropout = nn.Dropout(dropout)
        self.lora_in = nn.Parameter(torch.randn(base.in_features, rank).to(base.weight))
        self.lora_out = nn.Parameter(torch.randn(base.out_features, rank).to(base.weight))
        self.lora_task = nn.Parameter(torch.randn(tasks, task_rank).to(base.weight))
        self.lora_core = nn.Parameter(base.weight.new_zeros(task_rank, rank, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Return `task batch x ... x out`, from `task batch x ... x in`: all images of the first task come first."""
        core = torch.einsum("tv,vpr->tpr", self.lora_task, self.lora_core)
        low = (self.dropout(x) @ self.lora_in).unflatten(0, (self.tasks, -1)).flatten(1, -2)  # (task, places, r)
        out: Tensor = self.base_layer(x)
        return out + self.scaling * linear(torch.bmm(low, core), self.lora_out).view_as(out)

    def distances(self) -> Tensor:
        r""":math:`\lVert U^\top U - I \rVert_F` of :math:`U_1`, :math:`U_2` and every :math:`G_v`, `2 + q`."""
        sides = torch.stack([u.T @ u for u in (self.lora_in, self.lora_out)])
        grams = torch.cat([sides, self.lora_core.mT @ self.lora_core])
        norms: Tensor = torch.linalg.matrix_norm(grams - torch.eye(grams.shape[-1]).to(grams))
        return norms
