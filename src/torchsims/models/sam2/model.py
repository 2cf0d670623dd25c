"""The paper's model."""

from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from torchsims._extras import needs
from torchsims.models.dense.blocks import resize
from torchsims.models.outputs import check_outputs, make_per_task
from torchsims.models.regularized import Regularized
from torchsims.models.sam2.adapters import MultiLoRA, TaskTensor
from torchsims.models.sam2.configs import HUB, SIZES, sam2_config
from torchsims.models.sources import check_name, check_source
from torchsims.registry import choose

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as Sam2 was trained
STRIDE = 32  # stride of the deepest level; the windows of the trunk need a multiple of it
EMBEDDING_STRIDE = 16  # stride of the level that the decoders attend to
ADAPTERS = ("lora", "multilora", "mtsam")
LARGE = f"{HUB}large"


@final
class SAM2MTL(Regularized):
    r"""The paper's model: a frozen SAM2.1 image encoder with one shared LoRA, and one neck and mask decoder per task.

    .. math::
        \text{lora:} \quad & W x + s \, B A \, \mathrm{dropout}(x),
            \qquad A \in \mathbb{R}^{r \times k}, B \in \mathbb{R}^{d \times r} \\
        \text{multilora:} \quad & W x + s \textstyle\sum_{i=1}^n \sigma_i \odot B_i A_i \, \mathrm{dropout}(x) \\
        \text{mtsam:} \quad & W x + s \, U_2 \bigl(\textstyle\sum_v U_{3,tv} G_v\bigr)^\top U_1^\top \mathrm{dropout}(x)

    - :math:`W` is the fused QKV projection of a block; :math:`r` is ``rank`` and :math:`s` is ``scaling``.
      :math:`B` starts at zero, and :math:`A` as peft draws it; the authors' script draws N(0, 1).
    - ``multilora``: :math:`n` is ``parallel``; :math:`\sigma_i \in \mathbb{R}^d` starts at zero.
    - ``mtsam``: every task :math:`t` has features of its own, so the trunk sees every image once per task. The
      ``task_rank`` matrices :math:`G_v \in \mathbb{R}^{r \times r}` start at zero. The LayerNorms of the blocks are
      trained, and one frozen neck serves all tasks. :meth:`regularizer` is a term of the objective, which the commands
      add; see :class:`~torchsims.models.Regularized`.

    With LoRA and MultiLoRA the trunk runs once for all tasks. Each output channel is one learned dense prompt, added to
    the embedding of the image at stride 16; mask token 0 is decoded at stride 4 and resized to the image. Each task has
    high-resolution features of its own neck; the authors' script takes those of the first task for all. Trained are
    adapters, necks, prompts and decoders, except the heads that score masks and the three other masks of a decoder: no
    loss reads them, so they are frozen. All heads start from the same random state. Needs the extra ``[vision]``.

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
        norms: whether the LayerNorms of the blocks are trained as well.
        adapter: ``"lora"``, ``"multilora"`` or ``"mtsam"``.
        parallel: number of parallel adapters of MultiLoRA.
        task_rank: number of matrices that the tasks combine in MTSAM.
        orthogonality: factor of the regularizer of MTSAM.

    Attributes:
        shares_representation: whether the trunk returns the same features for all tasks.

    Example:
        >>> from torchsims.models import SAM2MTL
        >>> model = SAM2MTL({"seg": 13, "depth": 1}, "toy", rank=4, size=64)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 48, 64)).items()}
        {'seg': (2, 13, 48, 64), 'depth': (2, 1, 48, 64)}
    """

    mean: Tensor
    std: Tensor

    title: ClassVar[str] = "SAM2"

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
        adapter: str = "lora",
        parallel: int = 3,
        task_rank: int = 4,
        orthogonality: float = 1.0,
    ) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        self.validate("toy", rank, scaling, dropout, adapter, parallel, task_rank, orthogonality)
        self.size = _check_size(size)
        self.shares_representation, self._orthogonality = adapter != "mtsam", orthogonality
        with needs("vision"):
            from torchsims.models.sam2 import parts
        if isinstance(encoder, str) and encoder in SIZES:
            encoder = sam2_config(encoder)
        source = parts.make_source(encoder)
        self.trunk = source.vision_encoder.backbone
        if adapter == "lora":
            parts.add_lora(self.trunk, rank, scaling, dropout)
        elif adapter == "multilora":
            parts.add_adapters(self.trunk, lambda qkv: MultiLoRA(qkv, rank, parallel, scaling, dropout))
        else:
            tasks = len(self.tasks)
            parts.add_adapters(self.trunk, lambda qkv: TaskTensor(qkv, tasks, rank, task_rank, scaling, dropout))
        parts.freeze(self.trunk, norms or not self.shares_representation)
        if checkpointing:
            parts.add_checkpointing(self.trunk)
        self.position = source.shared_image_embedding
        own_neck = self.shares_representation
        self.heads = nn.ModuleList(make_per_task(outputs, lambda _, n: parts.TaskHead(source, n, own_neck)))
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    @staticmethod
    def validate(
        encoder: str = LARGE,
        rank: int = 32,
        scaling: float = 0.5,
        dropout: float = 0.1,
        adapter: str = "lora",
        parallel: int = 3,
        task_rank: int = 4,
        orthogonality: float = 1.0,
        size: int = STRIDE,
        **_: bool,
    ) -> None:
        """Raise if an option is out of range, without making the model. A folder is written with a slash."""
        check_name(encoder, SIZES)
        choose("adapter", adapter, ADAPTERS)
        for name, value in {"rank": rank, "scaling": scaling, "parallel": parallel, "task_rank": task_rank}.items():
            if not value > 0:
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        if not 0 <= dropout < 1:
            raise ValueError(f"Parameter `dropout` should be in [0, 1). Found `dropout = {dropout}`.")
        if not orthogonality >= 0:
            raise ValueError(
                f"Parameter `orthogonality` should not be negative. Found `orthogonality = {orthogonality}`."
            )
        _check_size(size)

    @staticmethod
    def check_sources(encoder: str = LARGE, **_: object) -> None:
        """Raise if an encoder that can only be a folder is missing; hub ids have one slash, inside."""
        check_source(encoder, SIZES)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`.

        Args:
            image: colours from 0 to 1, `batch x 3 x height x width`, of any height and width.
        """
        pixels = image
        if image.shape[-2:] != self.size:
            pixels = interpolate(image, self.size, mode="bilinear", align_corners=False, antialias=True)
        position = self._positions(pixels)
        levels = self._levels((pixels - self.mean) / self.std)
        found = zip(self.tasks, self.heads, levels, strict=True)
        return {task: resize(head(own, position), image.shape[-2:]) for task, head, own in found}

    def regularizer(self) -> Tensor | None:
        r"""Return a term of the objective that belongs to no task, or None if the adapters have none.

        .. math:: \lambda \, \mathrm{mean}_U \lVert U^\top U - I \rVert_F

        :math:`\lambda` is ``orthogonality``, and the mean is over :math:`U_1, U_2` and all :math:`G_v` of all blocks.
        """
        distances = [module.distances() for module in self.trunk.modules() if isinstance(module, TaskTensor)]
        return self._orthogonality * torch.cat(distances).mean() if distances and self._orthogonality else None

    def _levels(self, pixels: Tensor) -> list[tuple[Tensor, ...]]:
        """Return the levels of the trunk for every task, finest first."""
        tasks = len(self.tasks)
        if self.shares_representation:
            return [self.trunk(pixels).intermediate_hidden_states] * tasks
        levels = self.trunk(pixels.repeat(tasks, 1, 1, 1)).intermediate_hidden_states
        return list(zip(*(level.chunk(tasks) for level in levels), strict=True))

    def _positions(self, pixels: Tensor) -> Tensor:
        """Return the encoding of the middle of every place of the embedding, `1 x width x height/16 x width/16`."""
        y, x = (
            (torch.arange(side // EMBEDDING_STRIDE, device=pixels.device) + 0.5) / (side // EMBEDDING_STRIDE)
            for side in self.size
        )
        places = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1).to(pixels.dtype)
        encoded: Tensor = self.position(places)
        return encoded.movedim(-1, 0).unsqueeze(0)


def _check_size(size: int | tuple[int, int]) -> tuple[int, int]:
    """Return height and width; raise if the trunk cannot take them."""
    both = (size, size) if isinstance(size, int) else tuple(size)
    if len(both) != 2 or any(side < STRIDE or side % STRIDE for side in both):
        raise ValueError(f"Parameter `size` should be one or two multiples of {STRIDE}. Found `size = {size}`.")
    return both[0], both[1]
