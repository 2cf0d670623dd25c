"""Hard parameter sharing for dense prediction."""

from collections.abc import Mapping
from typing import Unpack, final

from torch import Tensor, nn

from torchsims.models.dense.blocks import Head, Trunk
from torchsims.models.dense.encoders import SMALL
from torchsims.models.dense.network import DenseNetwork, DenseOptions


@final
class HPS(DenseNetwork):
    """Hard parameter sharing: one encoder for all tasks, and one head per task.

    The usual network of NYUv2 is ``encoder="resnet50"``, dilated, with ASPP heads. The default is small enough for two
    cores: an encoder-decoder for all tasks, with a convolution per task behind it.

    Args:
        outputs: channels of the prediction, by task.
        options: encoder, width, norm and more: see :class:`DenseNetwork`. With the small encoder, ``head="auto"`` is
            the shared decoder.

    Example:
        >>> import torch
        >>> from torchsims.models import HPS
        >>> model = HPS({"seg": 8, "depth": 1, "normals": 3})
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 8, 48, 64), 'depth': (2, 1, 48, 64), 'normals': (2, 3, 48, 64)}
    """

    def __init__(self, outputs: Mapping[str, int], **options: Unpack[DenseOptions]) -> None:
        super().__init__(outputs, **options)
        self.trunk: nn.Module
        if options.get("encoder", SMALL) == SMALL and options.get("head", "auto") == "auto":
            self.trunk = Trunk(self.width)
            self.heads = nn.ModuleList([Head(self.width, channels) for channels in outputs.values()])
        else:
            self.trunk = encoder = self.make_encoder()
            self.heads = self.make_heads(encoder.channels)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        features = self.trunk(image)
        return {task: head(features, image.shape[-2:]) for task, head in zip(self.tasks, self.heads, strict=True)}
