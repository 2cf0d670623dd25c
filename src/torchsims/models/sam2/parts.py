"""Parts of SAM2MTL. This module imports transformers and peft, and is imported when a model is made."""

import copy
from collections.abc import Callable
from functools import partial
from os import PathLike, fspath
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import Sam2Config, Sam2Model

from torchsims.models.sam2.configs import HUB, SIZES, sam2_config
from torchsims.models.sources import load_pretrained

PROMPT_NOISE = 0.02  # without it all channels of a task would start equal; as large as the initial weights of Sam2
# Prefixes of the tensors that are used of a checkpoint; the others encode prompts or follow videos.
USED = (
    "vision_encoder.",
    "mask_decoder.",
    "shared_image_embedding.",
    "prompt_encoder.no_mask_embed.",
    "no_memory_embedding",
)


def make_source(encoder: Any) -> Any:
    """Return a full Sam2 model: with random weights from a configuration, otherwise from a folder or a hub id."""
    if isinstance(encoder, Sam2Config):
        return Sam2Model(encoder)
    if not isinstance(encoder, (str, PathLike)):
        raise TypeError(
            f"Parameter `encoder` should be a folder, a hub id or a `Sam2Config`. Found a {type(encoder).__name__}."
        )
    name = fspath(encoder)
    if torch.get_default_device().type == "meta":  # shapes only: no weights are read
        return Sam2Model(_config(name))
    # Sam2VisionModel would read the same folder, find none of its keys, and stay random without an error.
    source, info = load_pretrained(
        name,
        "a Sam2 checkpoint",
        partial(Sam2Model.from_pretrained, output_loading_info=True, dtype=torch.float32, ignore_mismatched_sizes=True),
    )
    _raise_if_mismatched(name, info)
    return source


def _config(name: str) -> Any:
    """Return the configuration of a folder or a hub id; those of the published weights need no hub."""
    if name.startswith(HUB) and name.removeprefix(HUB) in SIZES:
        return sam2_config(name.removeprefix(HUB))
    return load_pretrained(name, "a Sam2 checkpoint", Sam2Config.from_pretrained)


def _raise_if_mismatched(encoder: str, info: dict[str, Any]) -> None:
    """Raise if a used tensor is missing in the checkpoint, has another shape there, or is unknown to the model."""
    wrong = {
        "missing": info["missing_keys"],
        "unexpected": info["unexpected_keys"],
        "of another shape": [key[0] if isinstance(key, tuple) else key for key in info["mismatched_keys"]],
    }
    found = []
    for kind, keys in wrong.items():
        used = [key for prefix in USED for key in sorted(keys) if key.startswith(prefix)]
        if used:
            found.append(f"{len(used)} {kind} ({', '.join(used[:2])}{', ...' if len(used) > 2 else ''})")
    if found:
        raise ValueError(
            f"The checkpoint `{encoder}` should hold every tensor of a full Sam2 model. Found {', '.join(found)}."
        )


def add_lora(trunk: nn.Module, rank: int, scaling: float, dropout: float) -> None:
    """Put peft's LoRA on every QKV projection."""
    alpha: Any = scaling * rank  # peft scales by alpha / rank
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=["qkv"]), trunk)


def add_adapters(trunk: Any, make: Callable[[nn.Linear], nn.Module]) -> None:
    """Replace every QKV projection by what ``make`` makes of it."""
    for block in trunk.blocks:
        block.attn.qkv = make(block.attn.qkv)


def freeze(trunk: nn.Module, norms: bool) -> None:
    """Freeze the trunk except for its adapters and, if ``norms``, the LayerNorms of its blocks."""
    for name, parameter in trunk.named_parameters():
        parameter.requires_grad_("lora_" in name or (norms and "layer_norm" in name))


def add_checkpointing(trunk: Any) -> None:
    """Let every block recompute its activations, with the same dropout, in the backward pass."""
    for block in trunk.blocks:
        block.gradient_checkpointing = True
        block._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False, preserve_rng_state=True)


class _NoPosition(nn.Module):
    """Replaces the positional encoding of a neck, which no decoder reads."""

    def forward(self, shape: torch.Size, device: torch.device, dtype: torch.dtype) -> Tensor:
        return torch.zeros((), device=device, dtype=dtype)


class TaskHead(nn.Module):
    """A neck, a mask decoder, and one dense prompt per channel, for one task.

    Args:
        source: the Sam2 model whose neck and decoder are copied.
        channels: channels of the prediction.
        own_neck: whether the neck is a trained copy; otherwise all heads have the one of ``source``, frozen.
    """

    def __init__(self, source: Any, channels: int, own_neck: bool) -> None:
        super().__init__()
        neck = source.vision_encoder.neck
        self.neck = (copy.deepcopy(neck) if own_neck else neck).requires_grad_(own_neck)
        self.neck.position_encoding = _NoPosition()
        self.decoder = copy.deepcopy(source.mask_decoder).requires_grad_(True)
        # Only mask token 0 is decoded, in training and in evaluation; the other tokens still take part in attention.
        self.decoder.num_mask_tokens = 1
        self.decoder.dynamic_multimask_via_stability = False
        unused = (self.decoder.iou_prediction_head, self.decoder.pred_obj_score_head)
        for head in (*unused, *self.decoder.output_hypernetworks_mlps[1:]):
            head.requires_grad_(False)
        # What Sam2 adds to the embedding of a single image without a prompt.
        start = (source.prompt_encoder.no_mask_embed.weight + source.no_memory_embedding.view(1, -1)).detach()
        self.prompts = nn.Parameter(start + PROMPT_NOISE * torch.randn(channels, start.shape[1]).to(start))

    def forward(self, levels: tuple[Tensor, ...], position: Tensor) -> Tensor:
        """Return `batch x channels x height/4 x width/4`, from the levels of the trunk, finest first."""
        *_, embedding, middle, fine = self.neck(levels)[0]  # strides 16, 8, 4
        images, channels = len(embedding), len(self.prompts)
        masks, *_ = self.decoder(
            image_embeddings=embedding.repeat_interleave(channels, dim=0),  # image, then channel
            image_positional_embeddings=position,
            sparse_prompt_embeddings=embedding.new_zeros(images * channels, 1, 0, embedding.shape[1]),
            dense_prompt_embeddings=self.prompts.repeat(images, 1)[:, :, None, None],
            multimask_output=False,
            high_resolution_features=[
                self.decoder.conv_s0(fine).repeat_interleave(channels, dim=0),
                self.decoder.conv_s1(middle).repeat_interleave(channels, dim=0),
            ],
        )
        out: Tensor = masks.view(images, channels, *fine.shape[-2:])
        return out
