"""NDDR-CNN."""

from collections.abc import Mapping
from typing import ClassVar, Unpack, final

import torch
from torch import Tensor, nn

from torchsims.models.dense.blocks import normed
from torchsims.models.dense.columns import Columns
from torchsims.models.dense.network import DenseOptions

MOMENTUM = 0.05  # of batch statistics


@final
class NDDR(Columns):
    r"""NDDR-CNN: one encoder and head per task, whose stages are fused by convolutions (Gao et al., 2019).

    .. math::
        \tilde x_t = \mathrm{ReLU}(\mathrm{norm}(W_t [x_1; \dots; x_m]))

    - :math:`x_j` is the output of the stem or of a stage of the encoder of task :math:`j`, with :math:`C` channels;
      :math:`W_t` is `C x mC`, a 1 x 1 convolution that starts as the mix of :class:`CrossStitch`: 0.9 times the
      identity for the own task, :math:`0.1 / (m - 1)` times for the others. The original, with two tasks, has 0.9 and
      0.1. Its shortcut from all stages to the head is left out.

    Args:
        outputs: channels of the prediction, by task.
        start: folder of a run of ``stl:of=hps`` with the same encoder, head and tasks, whose weights training starts
            from.
        options: encoder, width, norm and more: see :class:`DenseNetwork`.

    Example:
        >>> from torchsims.models import NDDR
        >>> model = NDDR({"seg": 8, "depth": 1}, width=8)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    title: ClassVar[str] = "NDDR-CNN"

    def __init__(self, outputs: Mapping[str, int], start: str = "", **options: Unpack[DenseOptions]) -> None:
        super().__init__(outputs, start, **options)
        self.fusions = nn.ModuleList([self._fusion(channels) for channels in (self.stem_channels, *self.channels)])

    def _fusion(self, channels: int) -> nn.Sequential:
        """Return the convolutions of all tasks as one: groups of channels do not reach across tasks."""
        both = len(self.tasks) * channels
        made = normed(both, both, self.norm)
        with torch.no_grad():
            made.get_parameter("0.weight").copy_(torch.kron(self.initial_mix(), torch.eye(channels))[:, :, None, None])
        if isinstance(made[1], nn.BatchNorm2d):
            made[1].momentum = MOMENTUM
        return made

    def mix(self, level: int, features: list[Tensor]) -> list[Tensor]:
        fused: Tensor = self.fusions[level](torch.cat(features, dim=1))
        return list(fused.chunk(len(features), dim=1))
