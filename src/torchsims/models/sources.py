"""Where pretrained encoders come from: folders and hub ids."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchsims._extras import needs
from torchsims.registry import choose

_WEIGHTS = tuple(
    f"{name}{index}" for name in ("model.safetensors", "pytorch_model.bin") for index in ("", ".index.json")
)
_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


def check_name(encoder: str, known: Sequence[str]) -> None:
    """Raise if a text is neither a known name nor has the form of a folder or hub id, which hold a slash.

    Example:
        >>> check_name("resnet", ["resnet18", "resnet50"])
        Traceback (most recent call last):
        ValueError: There is no encoder `resnet`. Did you mean `resnet50`? The names are resnet18, resnet50.
    """
    if "/" not in encoder:
        choose("encoder", encoder, known)


def check_source(encoder: str, known: Sequence[str]) -> None:
    """Raise if an encoder has no weights: in its folder, or for a hub id on this machine or on the hub.

    Nothing is downloaded. Hub ids have one slash, inside.
    """
    if encoder in known:
        return
    is_hub_id = encoder.strip("/").count("/") == 1 and not encoder.startswith(("/", ".", "~"))
    if not is_hub_id and not Path(encoder).is_dir():
        raise ValueError(
            f"Option `encoder` should be a folder, a hub id or one of {', '.join(known)}. Found `encoder={encoder}`."
        )
    if not _has_weights(encoder):
        found = "a folder without them" if Path(encoder).is_dir() else "no weights on this machine or on the hub"
        raise ValueError(
            f"Option `encoder` should name weights, such as `{_WEIGHTS[0]}`. Found `encoder={encoder}`: {found}."
        )


def _has_weights(encoder: str) -> bool:
    with needs("vision"):
        from transformers.utils import has_file
    try:
        return any(has_file(encoder, name) for name in _WEIGHTS)
    except Exception:  # no such model, no permission, a proxy: many types; what was downloaded before can be read
        return any(has_file(encoder, name, local_files_only=True) for name in _WEIGHTS)


def load_pretrained(name: str, kind: str, load: Callable[[str], Any]) -> Any:
    """Return what ``load`` makes of a folder or hub id; any failure becomes one sentence.

    Args:
        name: folder or hub id.
        kind: what it should be, such as ``"a Sam2 checkpoint"``.
        load: reads it with a class of transformers.
    """
    advice = f"Parameter `encoder` should be a folder or a hub id of {kind}. Found `encoder = {name!r}`"
    if not Path(name).is_dir() and not _HUB_ID.fullmatch(name):
        raise FileNotFoundError(f"{advice}, which is no folder.")
    try:
        with _quiet():
            return load(name)
    except Exception as error:  # no configuration, a broken file, no network: many types, one advice
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise ValueError(f"{advice}, which cannot be loaded: {reason or type(error).__name__}.") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide progress bars and the report of keys: mismatches become an error."""
    with needs("vision"):
        from transformers.utils import logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
