"""The paper's model by its name on the command line: ``sam2:encoder=tiny:rank=16:size=256``."""

from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from torchsims._specs import choose
from torchsims.models import SAM2MTL, SAM2STL, sam2_config
from torchsims.models._sam2 import check_options

__all__ = ["SIZES", "check_encoder", "check_sam2", "sam2", "sam2_stl"]

SIZES = ("toy", "tiny", "small", "base-plus", "large")
LARGE = "facebook/sam2.1-hiera-large"


def sam2(
    channels: Mapping[str, int],
    encoder: str = LARGE,
    rank: int = 32,
    scaling: float = 0.5,
    dropout: float = 0.1,
    size: int = 1024,
    checkpointing: bool = False,
    norms: bool = False,
) -> SAM2MTL:
    """Return :class:`torchsims.models.SAM2MTL`.

    Args:
        channels: how many channels the prediction of every task has, by name.
        encoder: a hub id or a folder of a full Sam2 checkpoint, written with a slash; or the name of a size, for random
            weights that the seed decides.
        rank: the rank of the adapters.
        scaling: what multiplies them.
        dropout: the share of an adapter's inputs that training drops.
        size: height and width at which the trunk sees an image.
        checkpointing: whether blocks of the trunk compute their activations again instead of keeping them.
        norms: whether the LayerNorms of the trunk are trained as well.
    """
    check_sam2(encoder, rank, scaling, dropout, size)
    return SAM2MTL(channels, _source(encoder), rank, scaling, dropout, size, checkpointing, norms)


@wraps(sam2)
def sam2_stl(*arguments: Any, **options: Any) -> SAM2STL:
    """Return :class:`torchsims.models.SAM2STL` of what :func:`sam2` returns."""
    return SAM2STL(sam2(*arguments, **options))


def _source(encoder: str) -> Any:
    return sam2_config(encoder) if encoder in SIZES else encoder


def check_sam2(
    encoder: str = LARGE, rank: int = 32, scaling: float = 0.5, dropout: float = 0.1, size: int = 1024, **_: bool
) -> None:
    """Raise if an option is none, without making the model."""
    if "/" not in encoder:
        choose("encoder", encoder, SIZES)
    check_options(rank, scaling, dropout, size)


def check_encoder(encoder: str = LARGE, **_: object) -> None:
    """Raise if an encoder that can only be a folder is not there; hub ids have one slash, inside."""
    inside = encoder.strip("/").count("/") == 1 and not encoder.startswith(("/", ".", "~"))
    if encoder not in SIZES and not inside and not Path(encoder).is_dir():
        raise ValueError(
            f"Option `encoder` should be a folder, a hub id or one of {', '.join(SIZES)}. Found `encoder={encoder}`."
        )
