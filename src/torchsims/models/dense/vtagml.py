"""VTAGML: a Swin transformer whose attention and adapters depend on the task."""

import copy
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torchsims._extras import needs
from torchsims.models.dense.swin import PatchMerging, PatchStem, SwinBlock, initialize, to_map, to_tokens
from torchsims.models.dense.swin_decoder import SwinDecoder
from torchsims.models.outputs import check_outputs, make_per_task
from torchsims.models.sources import check_name, check_source

ENCODERS = ("swin-s",)


class TaskAttention(nn.Module):
    r"""Attention in windows whose logits depend on the task.

    .. math:: M = (1 + \gamma) \odot P + \beta, \qquad (\gamma, \beta) = \mathrm{Linear}(e_t) \in \mathbb{R}^{2w}

    The rows of :math:`M \in \mathbb{R}^{w^2 \times w}` are cut into :math:`w` square blocks, which form a
    block-diagonal matrix that is added to the logits of all heads and windows.

    Args:
        attention: the attention, in windows of :math:`w \times w`.
        window: the side :math:`w`.
    """

    def __init__(self, attention: nn.Module, window: int) -> None:
        super().__init__()
        self.attention, self.window = attention, window
        self.modulation = initialize(nn.Linear(window**3, 2 * window))
        self.base = nn.Parameter(torch.zeros(window**2, window))

    def forward(self, tokens: Tensor, attention_mask: Tensor | None, *, embeddings: Tensor) -> Any:
        """Return what the attention does; the windows of the first task come first."""
        w = self.window
        scale, shift = self.modulation(embeddings).unsqueeze(1).chunk(2, dim=-1)
        blocks = ((1 + scale) * self.base + shift).view(-1, w, w, 1, w)  # (task, block, row, 1, column)
        diagonal = torch.eye(w).to(blocks).view(w, 1, w, 1)
        mask = (blocks * diagonal).view(-1, w * w, w * w).repeat_interleave(len(tokens) // len(embeddings), dim=0)
        if attention_mask is not None:
            mask = mask + attention_mask.repeat(len(tokens) // len(attention_mask), 1, 1)
        return self.attention(tokens, mask)


class TaskAdapter(nn.Module):
    r"""A linear bottleneck whose input is scaled and shifted by the task.

    .. math:: \mathrm{Up}(\mathrm{Down}((1 + \gamma) \odot x + \beta)), \qquad
        (\gamma, \beta) = \mathrm{Linear}(\mathrm{Linear}(e_t))

    Args:
        channels: channels of the features.
        size: size of the embeddings of the tasks.
    """

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.modulation = nn.Sequential(nn.Linear(size, size), nn.Linear(size, 2 * channels))
        self.bottleneck = nn.Sequential(nn.Linear(channels, channels // 3), nn.Linear(channels // 3, channels))

    def forward(self, features: Tensor, embeddings: Tensor) -> Tensor:
        """Return features of the same shape, `task batch x channels x height x width`."""
        scale, shift = self.modulation(embeddings)[:, None, None].chunk(2, dim=-1)  # (task, 1, 1, channels)
        tokens = to_tokens(features)
        tokens = tokens.reshape(len(embeddings), -1, *tokens.shape[1:])  # (task, batch, height width, channels)
        return to_map(self.bottleneck((1 + scale) * tokens + shift).flatten(0, 1), features.shape[-2:])


class TaskStage(nn.Module):
    """A stage of a Swin transformer with two streams: features, and what adapters make of them for every task.

    Args:
        blocks: layers of the stage; those with :class:`TaskAttention` need one copy of the images per task.
        merging: halves the map before the blocks; None in the first stage.
        adapters: adapters behind the blocks; empty without a second stream.
    """

    def __init__(self, blocks: Iterable[Any], merging: nn.Module | None, adapters: Iterable[nn.Module]) -> None:
        super().__init__()
        self.merging = nn.Identity() if merging is None else PatchMerging(merging)
        self.blocks, self.adapters = nn.ModuleList(map(SwinBlock, blocks)), nn.ModuleList(adapters)
        self.own_merging = copy.deepcopy(self.merging) if self.adapters else nn.Identity()
        initialize(self.own_merging)

    def forward(self, x: Tensor, h: Tensor | None, embeddings: Tensor, images: int) -> tuple[Tensor, Tensor | None]:
        """Return both streams behind the last block; ``x`` has ``images`` maps while it is the same for all tasks."""

        def per_task(features: Tensor) -> Tensor:
            return features if len(features) > images else features.repeat(len(embeddings), 1, 1, 1)

        block: Any
        for index, block in enumerate(self.blocks):
            adapted = isinstance(block.layer.attention, TaskAttention)
            x = block(per_task(x), embeddings=embeddings) if adapted else block(x)
            if self.adapters:
                h = self.adapters[index](per_task(x) if h is None else per_task(x) + h, embeddings)
        return x, h


@final
class VTAGML(nn.Module):
    r"""A Swin transformer for all tasks, adapted to each task by its embedding, with one decoder per task.

    .. math::
        x \leftarrow \mathrm{Block}(x; e_t), \qquad h \leftarrow \mathrm{Adapter}(x + h; e_t), \qquad
        e_t \in \mathbb{R}^{w^3}

    - :math:`e_t`: a learned embedding per task, N(0, 1) at the start; :math:`w` is the side of a window.
    - Blocks: the logits of the attention in the last ``adapted`` blocks of the stage before the last depend on the
      task. What comes before them is the same for all tasks and computed once.
    - Adapters: a second stream :math:`h`, zero at the start, with its own patch mergings. The decoder of a task gets
      :math:`h`, and the inputs of the stages from :math:`x`.

    Decoders are those of Swin-Unet. Needs the extra ``[vision]``.

    Args:
        outputs: channels of the prediction, by task.
        encoder: ``"swin-s"`` for random weights, a folder or hub id of a Swin transformer, or its configuration.
        adapted: how many blocks have attention that depends on the task.
        adapters: whether there is a second stream; without it the decoders get :math:`x`.
        dropout: dropout in the decoders.
        checkpointing: whether blocks of the encoder recompute their activations instead of keeping them.

    Example:
        >>> from transformers import SwinConfig
        >>> from torchsims.models import VTAGML
        >>> config = SwinConfig(embed_dim=12, depths=[1, 1, 2, 1], num_heads=[1, 2, 2, 4], window_size=2)
        >>> model = VTAGML({"seg": 13, "depth": 1}, config, adapted=1)
        >>> {task: tuple(out.shape) for task, out in model(torch.rand(2, 3, 64, 96)).items()}
        {'seg': (2, 13, 64, 96), 'depth': (2, 1, 64, 96)}
    """

    mean: Tensor
    std: Tensor
    shares_representation = False

    def __init__(
        self,
        outputs: Mapping[str, int],
        encoder: Any = "swin-s",
        adapted: int = 6,
        adapters: bool = True,
        dropout: float = 0.6,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        self.tasks = check_outputs(outputs)
        self.validate(encoder, adapted, dropout)
        with needs("vision"):
            from torchsims.models.dense.transformers_encoders import load_model
        model, colours, _ = load_model(encoder, ("swin",))
        config = model.config
        if checkpointing:
            for layer in (layer for stage in model.encoder.layers for layer in stage.blocks):
                layer.gradient_checkpointing = True
                layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        self.embeddings = nn.Parameter(torch.randn(len(self.tasks), config.window_size**3))
        self.stem, self.norm = PatchStem(model), model.layernorm
        self.stages = _make_stages(model, adapted, adapters)
        self.decoders = nn.ModuleList(
            make_per_task(outputs, lambda _, number: initialize(SwinDecoder(config, number, dropout)))
        )
        for name, values in zip(("mean", "std"), colours, strict=True):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    @staticmethod
    def validate(encoder: Any = "swin-s", adapted: int = 6, dropout: float = 0.6, **_: bool) -> None:
        """Raise if an option is out of range, without making the network. A folder is written with a slash."""
        if isinstance(encoder, str):
            check_name(encoder, ENCODERS)
        if not adapted >= 0:
            raise ValueError(f"Parameter `adapted` should not be negative. Found `adapted = {adapted}`.")
        if not 0 <= dropout < 1:
            raise ValueError(f"Parameter `dropout` should be in [0, 1). Found `dropout = {dropout}`.")

    @staticmethod
    def check_sources(encoder: str = "swin-s", **_: object) -> None:
        """Raise if an encoder that can only be a folder is missing."""
        check_source(encoder, ENCODERS)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        height, width = image.shape[-2:]
        if height % self.stem.stride or width % self.stem.stride:
            raise ValueError(
                f"Height and width of images should be multiples of {self.stem.stride}. Found {height} x {width}."
            )
        features, skips = self.encode(image)
        parts = zip(self.tasks, self.decoders, features.chunk(len(self.tasks)), strict=True)
        return {task: decoder(own, skips) for task, decoder, own in parts}

    def encode(self, image: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the last map, `task batch x ...`, and what enters the stages before the last, for all tasks."""
        x, h, skips = self.stem((image - self.mean) / self.std), None, []
        stage: Any
        for stage in self.stages:
            x, h = stage.merging(x), None if h is None else stage.own_merging(h)
            skips.append(x)
            x, h = stage(x, h, self.embeddings, len(image))
        last = h if h is not None else x if len(x) > len(image) else x.repeat(len(self.tasks), 1, 1, 1)
        return to_map(self.norm(to_tokens(last)), last.shape[-2:]), skips[:-1]


def _make_stages(model: Any, adapted: int, adapters: bool) -> nn.ModuleList:
    config, layers = model.config, model.encoder.layers
    depth, size = config.depths[-2], config.window_size**3
    if adapted > depth:
        raise ValueError(
            f"Parameter `adapted` should be at most {depth} with this encoder. Found `adapted = {adapted}`."
        )
    for layer in layers[-2].blocks[depth - adapted :]:
        layer.attention = TaskAttention(layer.attention, config.window_size)
    stages = nn.ModuleList()
    for index, layer in enumerate(layers):
        made = [initialize(TaskAdapter(config.embed_dim * 2**index, size)) for _ in layer.blocks if adapters]
        stages.append(TaskStage(layer.blocks, layers[index - 1].downsample if index else None, made))
    return stages
