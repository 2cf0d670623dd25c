"""The paper's model."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from torchsims._extras import needs
from torchsims.models.dense.blocks import resize
from torchsims.models.outputs import check_outputs, make_per_task
from torchsims.models.sam2.configs import SIZES, sam2_config
from torchsims.registry import choose

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as Sam2 was trained
STRIDE = 32  # stride of the deepest level; the windows of the trunk need a multiple of it
EMBEDDING_STRIDE = 16  # stride of the level that the decoders attend to
LARGE = "facebook/sam2.1-hiera-large"


@final
class SAM2MTL(nn.Module):
    r"""The paper's model: a frozen SAM2.1 image encoder with one shared LoRA, and one neck and mask decoder per task.

    .. math::
        W x + s \, B A \, \mathrm{dropout}(x), \qquad A \in \mathbb{R}^{r \times k}, B \in \mathbb{R}^{d \times r}

    - :math:`W` is the fused QKV projection of a block; :math:`r` is ``rank`` and :math:`s` is ``scaling``.
      :math:`B` starts at zero, and :math:`A` as peft draws it; the authors' script draws N(0, 1).

    The trunk runs once for all tasks. Each output channel is one learned dense prompt, added to the embedding of the
    image at stride 16; mask token 0 is decoded at stride 4 and resized to the image. Each task has high-resolution
    features of its own neck; the authors' script takes those of the first task for all. Trained are LoRA, necks,
    prompts and decoders, except the heads that score masks and the three other masks of a decoder: no loss reads them,
    so they are frozen. All heads start from the same random state. Needs the extra ``[vision]``.

    Args:
        outputs: channels of the prediction, by task.
        encoder: a folder or hub id of a full Sam2 checkpoint; or one of the sizes of :func:`sam2_config` or a
            ``transformers.Sam2Config``, for random weights.
        rank: rank of the adapters.
        scaling: factor of the adapters.
        dropout: dropout of the inputs of the adapters.
        size: height and width at which the trunk sees an image, multiples of 32; one number means both.
        checkpointing: whether blocks of the trunk recompute their activations instead of keeping them. The numbers stay
            the same, dropout included.
        norms: whether the LayerNorms of the trunk are trained as well.

    Example:
        >>> from torchsims.models import SAM2MTL
        >>> model = SAM2MTL({"seg": 13, "depth": 1}, "toy", rank=4, size=64)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 13, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        outputs: Mapping[str, int],
        encoder: str | PathLike[str] | Any = LARGE,
        rank: int = 32,
        scaling: float = 0.5,
        dropout: float = 0.1,
        size: int | tuple[int, int] = 1024,
        checkpointing: bool = False,
        norms: bool = False,
    ) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        self.size = _check_numbers(rank, scaling, dropout, size)
        with needs("vision"):
            from torchsims.models.sam2 import parts
        if isinstance(encoder, str) and encoder in SIZES:
            encoder = sam2_config(encoder)
        source = parts.make_source(encoder)
        self.trunk = source.vision_encoder.backbone
        parts.add_lora(self.trunk, rank, scaling, dropout, norms)
        if checkpointing:
            parts.add_checkpointing(self.trunk)
        self.position = source.shared_image_embedding
        self.heads = nn.ModuleList(make_per_task(outputs, lambda _, channels: parts.TaskHead(source, channels)))
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    @staticmethod
    def validate(
        encoder: str = LARGE, rank: int = 32, scaling: float = 0.5, dropout: float = 0.1, size: int = 1024, **_: bool
    ) -> None:
        """Raise if an option is out of range, without making the model. A folder is written with a slash."""
        if "/" not in encoder:
            choose("encoder", encoder, SIZES)
        _check_numbers(rank, scaling, dropout, size)

    @staticmethod
    def check_sources(encoder: str = LARGE, **_: object) -> None:
        """Raise if an encoder that can only be a folder is missing; hub ids have one slash, inside."""
        is_hub_id = encoder.strip("/").count("/") == 1 and not encoder.startswith(("/", ".", "~"))
        if encoder not in SIZES and not is_hub_id and not Path(encoder).is_dir():
            raise ValueError(
                f"Option `encoder` should be a folder, a hub id or one of {', '.join(SIZES)}. "
                f"Found `encoder={encoder}`."
            )

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`.

        Args:
            image: colours from 0 to 1, `batch x 3 x height x width`, of any height and width.
        """
        pixels = image
        if image.shape[-2:] != self.size:
            pixels = interpolate(image, self.size, mode="bilinear", align_corners=False, antialias=True)
        levels = self.trunk((pixels - self.mean) / self.std).intermediate_hidden_states
        position = self._positions(pixels)
        found = {task: head(levels, position) for task, head in zip(self.tasks, self.heads, strict=True)}
        return {task: resize(masks, image.shape[-2:]) for task, masks in found.items()}

    def _positions(self, pixels: Tensor) -> Tensor:
        """Return the encoding of the middle of every place of the embedding, `1 x width x height/16 x width/16`."""
        y, x = (
            (torch.arange(side // EMBEDDING_STRIDE, device=pixels.device) + 0.5) / (side // EMBEDDING_STRIDE)
            for side in self.size
        )
        places = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1).to(pixels.dtype)
        encoded: Tensor = self.position(places)
        return encoded.movedim(-1, 0).unsqueeze(0)


def _check_numbers(rank: int, scaling: float, dropout: float, size: int | tuple[int, int]) -> tuple[int, int]:
    """Return height and width; raise if an option is out of range."""
    if not rank >= 1:
        raise ValueError(f"Parameter `rank` should be positive. Found `rank = {rank}`.")
    if not scaling > 0:
        raise ValueError(f"Parameter `scaling` should be positive. Found `scaling = {scaling}`.")
    if not 0 <= dropout < 1:
        raise ValueError(f"Parameter `dropout` should be in [0, 1). Found `dropout = {dropout}`.")
    both = (size, size) if isinstance(size, int) else tuple(size)
    if len(both) != 2 or any(side < STRIDE or side % STRIDE for side in both):
        raise ValueError(f"Parameter `size` should be one or two multiples of {STRIDE}. Found `size = {size}`.")
    return both[0], both[1]
