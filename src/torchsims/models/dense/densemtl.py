"""DenseMTL."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Unpack, final

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, interpolate

from torchsims.models.dense.exchange import Exchange
from torchsims.models.dense.heads import ASPP
from torchsims.models.dense.network import DenseNetwork, DenseOptions
from torchsims.models.outputs import make_per_task

RATES = (6, 12, 18)  # dilations of ASPP


@final
class DenseMTL(DenseNetwork):
    r"""DenseMTL: one encoder, and one decoder per task; decoders exchange features by attention (Lopes et al., 2023).

    .. math::
        \tilde x_t = x_t + \mathrm{ReLU}(\mathrm{norm}\, W_t [p_{st}]_{s \ne t}), \qquad
        p_{st} = \phi([F f \odot \sigma(G f); \; \alpha \odot V \mathrm{softmax}(Q^\top K / \sqrt d)^\top])

    - :math:`x_t` are the features of task :math:`t` at stride 2, and :math:`f = \mathrm{ReLU}(W_{st} x_s)`;
      :math:`F` and :math:`G` are 3 x 3 convolutions. :math:`Q` comes from :math:`x_t`, :math:`K` and :math:`V` from
      :math:`f`, all four times coarser; :math:`\alpha`, one number per channel, is zero at the start.

    The original has a loss at each of the two finest levels. A task has one loss here: its prediction is the sum of the
    two. ResNets are dilated to output stride 16, as in the original. ``head`` does not apply: the decoders are part of
    the architecture.

    Args:
        outputs: channels of the prediction, by task.
        options: encoder, width, norm and more: see :class:`DenseNetwork`. ``width`` is that of the two coarsest levels
            of a decoder.

    Example:
        >>> from torchsims.models import DenseMTL
        >>> model = DenseMTL({"seg": 8, "depth": 1}, width=16)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    default_head = "aspp"
    resnet_stride = 16

    def __init__(self, outputs: Mapping[str, int], **options: Unpack[DenseOptions]) -> None:
        super().__init__(outputs, **options)
        self.encoder = self.make_encoder()
        skips = (self.encoder.stem_level.channels, *self.encoder.channels)
        self.decoders = nn.ModuleList(
            make_per_task(outputs, lambda _, channels: Decoder(skips, channels, self.width, self.norm))
        )
        exchanged = self.width // 2
        self.exchanges = nn.ModuleList(
            make_per_task(outputs, lambda *_: Exchange(exchanged, len(outputs) - 1, self.norm))
        )

    @staticmethod
    def validate(*, head: str = "auto", **options: Any) -> None:
        """Raise if an option is out of range, without making the network."""
        if head != "auto":
            raise ValueError(f"Parameter `head` should not be given for DenseMTL. Found `head = {head!r}`.")
        DenseNetwork.validate(**options)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        skips = [self.encoder.run_stem(image)]
        features = self.encoder.pool(skips[0])
        for stage in self.encoder.stages:
            features = stage(features)
            skips.append(features)
        decoders = [decoder for decoder in self.decoders if isinstance(decoder, Decoder)]
        coarse = [decoder.decode(skips) for decoder in decoders]
        found = {}
        for index, (task, decoder) in enumerate(zip(self.tasks, decoders, strict=True)):
            mixed = self.exchanges[index](coarse[index], [x for place, x in enumerate(coarse) if place != index])
            found[task] = decoder.predict(mixed, image.shape[-2:])
        return found


class Decoder(nn.Module):
    """The decoder of one task: ASPP, then finer and finer, with the maps of the encoder.

    Args:
        skips: channels of the stem and the stages of the encoder.
        outputs: channels of the prediction.
        width: channels of the coarsest levels.
        norm: kind of the norms of ASPP.
    """

    def __init__(self, skips: Sequence[int], outputs: int, width: int, norm: str) -> None:
        super().__init__()
        widths = (width, width, width // 2, width // 2)
        self.aspp = ASPP(skips[-1], width, norm, RATES)
        self.shrink = nn.ModuleList([nn.Identity(), *(_Padded(one, two) for one, two in pairwise(widths))])
        self.join = nn.ModuleList([_Padded(w + skip, w) for w, skip in zip(widths, skips[-2::-1], strict=True)])
        self.fine = nn.ModuleList([_Padded(width // 2, width // 4), _Padded(width // 4, width // 4)])
        self.outs = nn.ModuleList([nn.Conv2d(channels, outputs, 1) for channels in (width // 2, width // 4)])

    def decode(self, skips: Sequence[Tensor]) -> Tensor:
        """Return features of the size of the finest map."""
        features: Tensor = self.aspp(skips[-1])
        for shrink, join, skip in zip(self.shrink, self.join, reversed(skips[:-1]), strict=True):
            features = join(torch.cat([interpolate(shrink(features), size=skip.shape[-2:]), skip], dim=1))
        return features

    def predict(self, features: Tensor, size: Sequence[int]) -> Tensor:
        """Return predictions, `batch x outputs x size`."""
        first, second = self.fine
        fine = second(interpolate(first(features), size=tuple(size)))
        coarse: Tensor = interpolate(self.outs[0](features), size=tuple(size), mode="bilinear", align_corners=False)
        return coarse.add(self.outs[1](fine))


class _Padded(nn.Module):
    """A 3 x 3 convolution of a map that is reflected at its border, and an ELU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="reflect")

    def forward(self, features: Tensor) -> Tensor:
        return elu(self.convolution(features))
