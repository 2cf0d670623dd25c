"""MTAN."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Unpack, final

import torch
from torch import Tensor, nn

from torchsims.models.dense.blocks import Bottleneck
from torchsims.models.dense.encoders import Level, Stage
from torchsims.models.dense.network import DenseNetwork, DenseOptions
from torchsims.models.dense.norms import make_norm
from torchsims.models.outputs import make_per_task

REDUCTION = 4  # channels of a stage per hidden channel of an attention


@final
class MTAN(DenseNetwork):
    r"""MTAN: one encoder for all tasks, and one attention per task and stage (Liu et al., 2019).

    .. math::
        m_{t,l} = \sigma(\mathrm{norm}\, W_2\, \mathrm{ReLU}\, \mathrm{norm}\, W_1 [u_l; a_{t,l-1}]), \qquad
        a_{t,l} = R_l(m_{t,l} \odot v_l)

    - :math:`u_l` and :math:`v_l` are the maps before and after the last block of stage :math:`l`; the masked
      :math:`v_l` goes to the head of task :math:`t`. :math:`R_l`, a bottleneck block and a 2 x 2 maximum where the next
      stage is smaller, is shared by the tasks.

    Args:
        outputs: channels of the prediction, by task.
        options: encoder, width, norm and more: see :class:`DenseNetwork`.

    Example:
        >>> from torchsims.models import MTAN
        >>> model = MTAN({"seg": 8, "depth": 1}, width=8)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    def __init__(self, outputs: Mapping[str, int], **options: Unpack[DenseOptions]) -> None:
        super().__init__(outputs, **options)
        self.encoder = self.make_encoder()
        levels = self.encoder.levels

        def attentions(*_: object) -> nn.ModuleList:
            return nn.ModuleList(
                [
                    self._attention((level.before or level.channels) + (level.channels if index else 0), level.channels)
                    for index, level in enumerate(levels)
                ]
            )

        self.attentions = nn.ModuleList(make_per_task(outputs, attentions))
        self.refinements = nn.ModuleList([self._refinement(one, two) for one, two in pairwise(levels)])
        self.heads = self.make_heads(self.encoder.channels)

    def _attention(self, inputs: int, channels: int) -> nn.Sequential:
        hidden = max(1, channels // REDUCTION)
        return nn.Sequential(
            nn.Conv2d(inputs, hidden, 1),
            make_norm(self.norm, hidden),
            nn.ReLU(),
            nn.Conv2d(hidden, channels, 1),
            make_norm(self.norm, channels),
            nn.Sigmoid(),
        )

    def _refinement(self, one: Level, two: Level) -> nn.Sequential:
        block = Bottleneck(one.channels, two.channels, self.norm)
        ratio = two.stride // one.stride
        return nn.Sequential(block, nn.MaxPool2d(ratio, ceil_mode=True)) if ratio > 1 else nn.Sequential(block)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        stages = self._stages(image)
        found = {}
        for task, attentions, head in zip(self.tasks, self.attentions, self.heads, strict=True):
            assert isinstance(attentions, nn.ModuleList)
            masked: list[Tensor] = []
            for level, ((before, after), attention) in enumerate(zip(stages, attentions, strict=True)):
                seen = torch.cat([before, self.refinements[level - 1](masked[-1])], dim=1) if level else before
                masked.append(attention(seen) * after)
            found[task] = head(masked, image.shape[-2:])
        return found

    def _stages(self, image: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the maps before and after the last block of every stage."""
        features, found = self.encoder.pool(self.encoder.run_stem(image)), []
        for stage in self.encoder.stages:
            assert isinstance(stage, Stage)
            before = stage(features, stop=-1)
            features = stage(before, start=-1)
            found.append((before, features))
        return found
