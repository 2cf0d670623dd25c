"""The base class of networks for dense prediction."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from torch import nn

from torchsims.models.dense.encoders import ENCODERS, SMALL, SMALL_WIDTH, StagedEncoder, check_encoder, make_encoder
from torchsims.models.dense.heads import HEADS, WIDTHS, make_head
from torchsims.models.dense.norms import GROUP_CHANNELS
from torchsims.models.outputs import check_outputs, make_per_task
from torchsims.models.sources import check_name, check_source
from torchsims.spaces import Choice, Space


class DenseOptions(TypedDict, total=False):
    """Options of every network for dense prediction, see :class:`DenseNetwork`."""

    encoder: Any
    width: int
    dilated: int
    norm: str
    head: str
    frozen: int
    checkpointing: bool


class DenseNetwork(nn.Module):
    """Encoders with one head per task.

    Group norm and frozen statistics predict every image by itself: micro-batches and ranks are exact. Batch statistics
    are not.

    Args:
        outputs: channels of the prediction, by task.
        encoder: ``"small"``, for two cores; ``"resnet18"``, ``"resnet34"``, ``"resnet50"``, ``"resnet101"``,
            ``"mobilenetv2"``, ``"swin-s"`` or ``"swinv2-b"`` with random weights; a folder or hub id of such an
            encoder, pretrained; or its configuration. All but the first need the extra ``[vision]``.
        width: channels inside the heads; for the small encoder also of its finest map. A multiple of 8; 0 for 16 with
            the small encoder, 64 in light heads and 256 in ASPP.
        dilated: output stride of ResNets and MobileNetV2, 8, 16 or 32; 0 for 8 and 32.
        norm: ``"batch"``, ``"group"`` or ``"frozen"`` statistics; ``"auto"`` for frozen when pretrained, else group.
            New layers have group norm where the encoder's statistics are frozen.
        head: ``"aspp"``, the usual head of dilated ResNets, on the last stage; ``"light"``, a small pyramid over all
            stages; ``"auto"`` for ASPP on ResNets and light otherwise.
        frozen: how many stages of the encoder, with the stem, are not trained.
        checkpointing: whether blocks of the encoder recompute their activations instead of keeping them.

    Attributes:
        default_head: what ``head="auto"`` is; empty for ASPP on ResNets and light otherwise.
        resnet_stride: what ``dilated=0`` is for ResNets.

    Example:
        >>> from torchsims.models import DenseNetwork
        >>> DenseNetwork({"depth": 1}, encoder="small", width=8).make_encoder().channels
        (8, 16, 32, 32)
    """

    default_head: ClassVar[str] = ""
    resnet_stride: ClassVar[int] = 8
    search_space: ClassVar[Mapping[str, Space]] = {"width": Choice((16, 32, 64))}

    def __init__(
        self,
        outputs: Mapping[str, int],
        encoder: Any = SMALL,
        width: int = 0,
        dilated: int = 0,
        norm: str = "auto",
        head: str = "auto",
        frozen: int = 0,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        self.validate(encoder=encoder, width=width, dilated=dilated, norm=norm, head=head, frozen=frozen)
        is_resnet = "resnet" in (encoder if isinstance(encoder, str) else encoder.model_type)
        self.head = head if head != "auto" else self.default_head or ("aspp" if is_resnet else "light")
        self.width = width or (SMALL_WIDTH if encoder == SMALL else WIDTHS[self.head])
        self.norm = norm
        self._outputs = dict(outputs)
        self._encoder: dict[str, Any] = {
            "encoder": encoder,
            "width": self.width,
            "dilated": dilated or (self.resnet_stride if is_resnet else 0),
            "norm": norm,
            "frozen": frozen,
            "checkpointing": checkpointing,
        }

    @staticmethod
    def validate(
        *,
        encoder: Any = SMALL,
        width: int = 0,
        dilated: int = 0,
        norm: str = "auto",
        head: str = "auto",
        frozen: int = 0,
        **_: Any,
    ) -> None:
        """Raise if an option is out of range, without making the network. A folder is written with a slash."""
        if isinstance(encoder, str):
            check_name(encoder, ENCODERS)
        check_encoder(encoder, dilated, norm, frozen)
        if width < 0 or width % GROUP_CHANNELS:
            raise ValueError(f"Parameter `width` should be a multiple of {GROUP_CHANNELS}. Found `width = {width}`.")
        if head not in ("auto", *HEADS):
            raise ValueError(f"Parameter `head` should be one of auto, {', '.join(HEADS)}. Found `head = {head!r}`.")

    @staticmethod
    def check_sources(encoder: str = SMALL, start: str = "", **_: object) -> None:
        """Raise if an encoder that can only be a folder, or the run that an architecture starts from, is missing."""
        check_source(encoder, ENCODERS)
        if start and not Path(start).is_dir():
            raise ValueError(f"Option `start` should be the folder of a run. Found `start={start}`.")

    def make_encoder(self) -> StagedEncoder:
        """Return a new encoder."""
        return make_encoder(**self._encoder)

    def make_heads(self, channels: Sequence[int]) -> nn.ModuleList:
        """Return a new head per task on stages with these channels, all from the same random state."""
        return nn.ModuleList(
            make_per_task(
                self._outputs, lambda _, number: make_head(self.head, channels, number, self.width, self.norm)
            )
        )
