"""SwinMTL: an encoder and a decoder for all tasks."""

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor, nn

from torchsims.models.dense.blocks import resize
from torchsims.models.dense.network import DenseNetwork
from torchsims.models.dense.norms import make_norm
from torchsims.models.outputs import make_per_task

NARROW = 32  # channels of the enlarged maps
WEIGHT_STD = 0.001  # of the decoder and the heads at the start


@final
class SwinMTL(DenseNetwork):
    """Hard parameter sharing of an encoder and a decoder: two convolutions per task are all that differs.

    The last map of the encoder is doubled three times by transposed convolutions to 32 channels, and after one more
    convolution resized to the image. The heads predict without an activation: the original writes depth as a power of a
    sigmoid. Its critic, an adversarial loss, is left out. Needs the extra ``[vision]``.

    Args:
        outputs: channels of the prediction, by task.
        encoder: see :class:`HPS`; the original has a Swin transformer V2, ``"swinv2-b"`` here with random weights.
        width: channels before and inside the heads, a multiple of 8.
        norm: ``"batch"``, ``"group"`` or ``"frozen"`` statistics; ``"auto"`` for frozen when pretrained, else group.
        frozen: how many stages of the encoder, with the stem, are not trained.
        checkpointing: whether blocks of the encoder recompute their activations instead of keeping them.

    Example:
        >>> import torch
        >>> from torchsims.models import SwinMTL
        >>> model = SwinMTL({"seg": 13, "depth": 1}, encoder="small")
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 13, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    def __init__(
        self,
        outputs: Mapping[str, int],
        encoder: Any = "swinv2-b",
        width: int = 128,
        norm: str = "auto",
        frozen: int = 0,
        checkpointing: bool = False,
    ) -> None:
        super().__init__(outputs, encoder, width=width, norm=norm, frozen=frozen, checkpointing=checkpointing)
        self.trunk = self.make_encoder()
        layers: list[nn.Module] = []
        for inputs in (self.trunk.channels[-1], NARROW, NARROW):
            enlarge = nn.ConvTranspose2d(inputs, NARROW, 2, stride=2, bias=False)
            layers += [enlarge, make_norm(norm, NARROW), nn.ReLU()]
        layers += [nn.Conv2d(NARROW, self.width, 3, padding=1), make_norm(norm, self.width), nn.ReLU()]
        self.decoder = _initialize(nn.Sequential(*layers))
        self.heads = nn.ModuleList(make_per_task(outputs, lambda _, number: _initialize(_head(self.width, number))))

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        features = resize(self.decoder(self.trunk(image)[-1]), image.shape[-2:])
        return {task: head(features) for task, head in zip(self.tasks, self.heads, strict=True)}


def _head(width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, outputs, 3, padding=1))


def _initialize(module: nn.Sequential) -> nn.Sequential:
    for part in module:
        if isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(part.weight, std=WEIGHT_STD)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module
