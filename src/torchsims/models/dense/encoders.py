"""Encoders as a stem and stages of blocks, so that an architecture can work between any two of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchsims._extras import needs
from torchsims.models.dense.blocks import Residual, convolution
from torchsims.models.dense.norms import NORMS, replace_norms

SMALL = "small"
ENCODERS = (SMALL, "resnet18", "resnet34", "resnet50", "resnet101", "mobilenetv2", "swin-s", "swinv2-b")
"""Names of the encoders with random weights; a folder or a hub id is read."""

Colours = tuple[Sequence[float], Sequence[float]]
"""Mean and standard deviation of the colours that an encoder was trained with."""

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
DILATED = (0, 8, 16, 32)
SMALL_WIDTH = 16


class Stage(nn.Sequential):
    """Blocks that run one after the other; with ``checkpointing`` they recompute their activations."""

    checkpointing = False

    def forward(self, features: Tensor, start: int | None = None, stop: int | None = None) -> Tensor:
        """Return the output of the blocks from ``start`` up to ``stop``, by default all of them."""
        for block in list(self)[start:stop]:
            features = checkpoint(block, features, use_reentrant=False) if self.checkpointing else block(features)
        return features


@final
@dataclass(frozen=True)
class Level:
    """The shape of what a stage returns.

    Attributes:
        channels: channels of the map.
        stride: how many times smaller than the image it is.
        before: channels before the last block of the stage; 0 if they are the same.
    """

    channels: int
    stride: int
    before: int = 0


@final
class StagedEncoder(nn.Module):
    """An encoder that can be run stage by stage; called as a whole it returns the output of every stage.

    Args:
        stem: makes the first feature map of an image.
        pool: what is between the stem and the first stage.
        stages: blocks of every stage.
        stem_level: shape of what ``stem`` returns.
        levels: shapes of what the stages return.
        colours: mean and standard deviation of the colours that the encoder was trained with.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        stem: nn.Module,
        pool: nn.Module,
        stages: Iterable[Iterable[nn.Module]],
        stem_level: Level,
        levels: Sequence[Level],
        colours: Colours = IMAGENET,
    ) -> None:
        super().__init__()
        self.stem, self.pool = stem, pool
        self.stages = nn.ModuleList([Stage(*blocks) for blocks in stages])
        self.stem_level, self.levels = stem_level, tuple(levels)
        for name, values in zip(("mean", "std"), colours, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels of the output of every stage."""
        return tuple(level.channels for level in self.levels)

    def run_stem(self, image: Tensor) -> Tensor:
        """Return the output of the stem for colours from 0 to 1, `batch x 3 x height x width`."""
        smallest = self.levels[-1].stride
        if min(image.shape[-2:]) < smallest:
            height, width = image.shape[-2:]
            raise ValueError(
                f"Images should have at least {smallest} x {smallest} pixels for this encoder. "
                f"Found {height} x {width}."
            )
        out: Tensor = self.stem((image - self.mean) / self.std)
        return out

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the output of every stage, finest first."""
        features, found = self.pool(self.run_stem(image)), []
        for stage in self.stages:
            features = stage(features)
            found.append(features)
        return found


def make_encoder(
    encoder: Any = SMALL,
    width: int = SMALL_WIDTH,
    dilated: int = 0,
    norm: str = "auto",
    frozen: int = 0,
    checkpointing: bool = False,
) -> StagedEncoder:
    """Return a new encoder.

    Args:
        encoder: a name of :data:`ENCODERS` or a configuration of transformers, for random weights; or a folder or a
            hub id.
        width: channels of the finest map of the small encoder, a multiple of 8.
        dilated: output stride, 8, 16 or 32; 0 for the usual one, which is 8 for ResNets.
        norm: batch, group or frozen; ``"auto"`` for frozen statistics when pretrained, and group otherwise.
        frozen: how many stages, with the stem before them, are not trained.
        checkpointing: whether blocks recompute their activations instead of keeping them.
    """
    if encoder == SMALL:
        made, pretrained = _small(width), False
    else:
        with needs("vision"):
            from torchsims.models.dense import transformers_encoders as source
        made, pretrained = source.make(encoder, dilated)
    kind = norm if norm != "auto" else "frozen" if pretrained else "group"
    replace_norms(made, kind)
    for part in [made.stem, *made.stages[:frozen]] if frozen else []:
        part.requires_grad_(False)
        replace_norms(part, "frozen")
    for stage in made.stages:
        assert isinstance(stage, Stage)
        stage.checkpointing = checkpointing
    return made


def check_encoder(encoder: Any, dilated: int, norm: str, frozen: int) -> None:
    """Raise if an option of :func:`make_encoder` is out of range, without making the encoder."""
    if dilated not in DILATED:
        raise ValueError(f"Parameter `dilated` should be 8, 16, 32 or 0. Found `dilated = {dilated}`.")
    if dilated and isinstance(encoder, str) and (encoder == SMALL or encoder.startswith("swin")):
        raise ValueError(
            f"Parameter `dilated` should not be given for encoder `{encoder}`. Found `dilated = {dilated}`."
        )
    if norm not in ("auto", *NORMS):
        raise ValueError(f"Parameter `norm` should be one of auto, {', '.join(NORMS)}. Found `norm = {norm!r}`.")
    if not 0 <= frozen <= 4:
        raise ValueError(f"Parameter `frozen` should be from 0 to 4. Found `frozen = {frozen}`.")


def _small(width: int) -> StagedEncoder:
    widths = (width, 2 * width, 4 * width, 4 * width)
    stages: list[list[nn.Module]] = [[Residual(width)]]
    for inputs, outputs in pairwise(widths):
        stages.append([convolution(inputs, outputs, stride=2), Residual(outputs)])
    levels = [Level(channels, 2 ** (1 + index)) for index, channels in enumerate(widths)]
    return StagedEncoder(
        convolution(3, width, stride=2), nn.Identity(), stages, levels[0], levels, ((0,) * 3, (1,) * 3)
    )
