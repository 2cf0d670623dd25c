"""A Sam2 model of toy size, and checkpoints of it in the format of the published ones."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam
from transformers import Sam2Model, Sam2VideoConfig, Sam2VideoModel

from torchsims import SIMS, TaskLosses
from torchsims.models import SAM2MTL, dense_losses, sam2_config

CHANNELS = {"seg": 5, "depth": 1, "normals": 3}
SIZE = (64, 96)
STEPS = 3


def make_source(seed: int = 0) -> Any:
    """Return a whole random Sam2 model, larger weights than transformers draws: what is far from zero is seen."""
    torch.manual_seed(seed)
    source = Sam2Model(sam2_config("toy"))
    source.prompt_encoder.image_embedding_size = (SIZE[0] // 16, SIZE[1] // 16)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return source


def write_checkpoint(folder: Path, seed: int = 0) -> Any:
    """Write a full checkpoint, and return the model that is in it."""
    source = make_source(seed)
    source.save_pretrained(folder)
    return source


def write_video_checkpoint(folder: Path) -> Any:
    """Write a checkpoint as the published SAM2.1 ones are: of the model that follows objects in videos."""
    toy = sam2_config("toy")
    config = Sam2VideoConfig(
        vision_config=toy.vision_config,
        prompt_encoder_config=toy.prompt_encoder_config.to_dict() | {"model_type": "sam2_video_prompt_encoder"},
        mask_decoder_config=toy.mask_decoder_config.to_dict() | {"model_type": "sam2_video_mask_decoder"},
        memory_attention_hidden_size=32,
        memory_attention_feed_forward_hidden_size=32,
        memory_attention_num_layers=1,
        memory_encoder_hidden_size=32,
        memory_encoder_output_channels=8,
        mask_downsampler_embed_dim=32,
        memory_fuser_embed_dim=32,
        memory_fuser_intermediate_dim=32,
    )
    torch.manual_seed(0)
    model = Sam2VideoModel(config)
    model.save_pretrained(folder)
    return model


def make_model(seed: int = 0, **options: Any) -> SAM2MTL:
    """Return a model whose adapters already do something, and whose predictions are about one."""
    torch.manual_seed(seed)
    model = SAM2MTL(CHANNELS, sam2_config("toy"), **{"rank": 4, "dropout": 0.0, "size": SIZE, **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn_like(parameter))
    return model


def make_batch(images: int = 4, seed: int = 0, size: tuple[int, int] = (32, 48)) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    normals = torch.randn(images, 3, *size, generator=generator)
    return {
        "image": torch.rand(images, 3, *size, generator=generator),
        "seg": torch.randint(-1, CHANNELS["seg"], (images, *size), generator=generator),
        "depth": torch.rand(images, 1, *size, generator=generator) + 0.5,
        "normals": normals / normals.norm(dim=1, keepdim=True),
    }


def task_losses(model: nn.Module, batch: dict[str, Tensor]) -> TaskLosses:
    return dense_losses(model(batch["image"]), batch)


def make_sims(model: nn.Module, **options: Any) -> SIMS:
    """Return SIMS at the rates of the paper's script; Adam makes rounding visible at rates ten times as large."""
    return SIMS(model, tau=5.0, outer=partial(Adam, lr=1e-4), inner=partial(Adam, lr=5e-4), **options)


def train(model: nn.Module, shard: slice, **options: Any) -> list[Any]:
    """Return the losses of every step and the predictions after the last, in double precision and with SGD.

    Adam would turn rounding into full steps where a gradient is structurally zero.
    """
    model.double()
    method = SIMS(model, outer=partial(SGD, lr=1e-2), inner=partial(SGD, lr=5e-2), **options)
    batches = [
        {name: value.double() if value.is_floating_point() else value for name, value in make_batch(seed=step).items()}
        for step in range(STEPS)
    ]
    losses = [
        method.step(task_losses, {name: value[shard] for name, value in batch.items()}).losses for batch in batches
    ]
    with torch.no_grad():
        return [[dict(each) for each in losses], model(batches[0]["image"])]


def on_rank(rank: int, wrapper: str, evaluation: str, adapter: str) -> list[Any]:
    shard = slice(0, 3) if rank == 0 else slice(3, 4)
    model: nn.Module = make_model(adapter=adapter).double()
    if wrapper == "ddp":
        model = DistributedDataParallel(model)
    return train(model, shard, evaluation=evaluation)
