"""Cross-Stitch networks."""

from collections.abc import Mapping
from typing import ClassVar, Unpack, final

import torch
from torch import Tensor, nn

from torchsims.models.dense.columns import Columns
from torchsims.models.dense.network import DenseOptions


@final
class CrossStitch(Columns):
    r"""Cross-Stitch: one encoder and head per task, whose stages are mixed linearly (Misra et al., 2016).

    .. math::
        \tilde x_t = \sum_j \alpha_{tj} \, x_j

    - :math:`x_j` is the output of a stage of the encoder of task :math:`j`; :math:`\tilde x_t` goes on to the next
      stage of task :math:`t` and to its head. :math:`\alpha` is learned for every stage, from 0.9 for the own task and
      :math:`0.1 / (m - 1)` for the others: the rows sum to 1.

    Args:
        outputs: channels of the prediction, by task.
        per_channel: whether every channel has its own :math:`\alpha`.
        start: folder of a run of ``stl:of=hps`` with the same encoder, head and tasks, whose weights training starts
            from.
        options: encoder, width, norm and more: see :class:`DenseNetwork`.

    Example:
        >>> from torchsims.models import CrossStitch
        >>> model = CrossStitch({"seg": 8, "depth": 1}, width=8)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64)}
        >>> model.mixes[0]
        Parameter containing:
        tensor([[0.9000, 0.1000],
                [0.1000, 0.9000]], requires_grad=True)
    """

    title: ClassVar[str] = "Cross-Stitch"

    def __init__(
        self,
        outputs: Mapping[str, int],
        per_channel: bool = False,
        start: str = "",
        **options: Unpack[DenseOptions],
    ) -> None:
        super().__init__(outputs, start, **options)
        scalars = self.initial_mix()
        self.mixes = nn.ParameterList(
            scalars.unsqueeze(-1).repeat(1, 1, channels) if per_channel else scalars.clone()
            for channels in self.channels
        )

    def mix(self, level: int, features: list[Tensor]) -> list[Tensor]:
        if level == 0:  # the stem is not mixed
            return features
        alpha, stacked = self.mixes[level - 1], torch.stack(features)
        if alpha.dim() == 2:
            mixed = (alpha @ stacked.flatten(1)).view_as(stacked)
        else:
            mixed = torch.einsum("tjc,jbchw->tbchw", alpha, stacked)
        return list(mixed.unbind())
