"""Files that were damaged, edited or made by someone else: read right, or refused with one sentence."""

import gzip
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch

import torchsims
from helpers.damage import damage
from helpers.small_tables import TABLE, write_table
from helpers.training_cases import checkpoint, tensors
from torchsims.data import read_image
from torchsims.data.tables import read_table
from torchsims.sweeps import find_runs, train_and_report
from torchsims.training import RunConfig, resolve, train
from torchsims.training.checkpoints import read_checkpoint

SENTENCES = (ValueError, OSError)
"""What the command line shows as one sentence."""


def flip_bits(chance: Random, folder: Path) -> None:
    """Flip a bit of a checkpoint: it is noticed, or what is read is the same."""
    home, expected = _finished()
    content = bytearray((home / "checkpoint.pt").read_bytes())
    for _ in range(chance.choice((1, 1, 1, 8))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    (folder / "checkpoint.pt").write_bytes(content)
    try:
        found = read_checkpoint(folder / "checkpoint.pt")
    except ValueError:
        return
    one, other = tensors(found), tensors(expected)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert {k: v for k, v in found.items() if k in ("config", "epoch")} == {k: expected[k] for k in ("config", "epoch")}


def edit_checkpoints(chance: Random, folder: Path) -> None:
    """Edit an entry of a checkpoint: what resumes or loads it works, or says one sentence."""
    home, state = _finished()
    _, edited = damage(state, chance)
    torch.save(edited, folder / "checkpoint.pt")
    _try(lambda: torchsims.load(folder).predict(home.parent / "table.csv"))
    _try(lambda: train(_config(home.parent / "table.csv"), folder))


def edit_results(chance: Random, folder: Path) -> None:
    """Edit an entry of `results.json`: the runs are read, or there is one sentence."""
    results = json.loads((_finished()[0] / "results.json").read_text())
    part = chance.choice(("run", "settings"))
    _, results[part] = damage(results[part], chance)
    (folder / "results.json").write_text(json.dumps(results))
    _try(lambda: find_runs([folder]))


def read_tables(chance: Random, folder: Path) -> None:
    """Read CSV, gzipped CSV and Parquet files with random bytes in them."""
    kind = chance.choice((".csv", ".csv.gz", ".parquet"))
    content = _parquet() if kind == ".parquet" else TABLE.encode()
    inner = _spoiled(content, chance)
    if kind == ".csv.gz":
        inner = gzip.compress(inner) if chance.random() < 0.5 else _spoiled(gzip.compress(content), chance)
    (folder / f"table{kind}").write_bytes(inner)
    _try(lambda: read_table(folder / f"table{kind}"))


def read_images(chance: Random, folder: Path) -> None:
    """Read PNG, JPEG and TIFF files with random bytes in them."""
    (folder / "image").write_bytes(_spoiled(_image(chance.choice(("PNG", "JPEG", "TIFF"))), chance))

    def read() -> None:
        pixels = read_image(folder / "image")
        assert pixels.min() >= 0
        assert pixels.max() <= 1

    _try(read)


def _try(action: Callable[[], object]) -> None:
    try:
        action()
    except SENTENCES as error:
        if not str(error).strip():
            raise AssertionError("an error without a sentence") from error


def _spoiled(content: bytes, chance: Random) -> bytes:
    """Return a file with bytes changed, left out, repeated or appended."""
    parts = bytearray(content)
    for _ in range(chance.randint(1, 5)):
        place, length = chance.randrange(len(parts) + 1), chance.choice((1, 1, 4, 100))
        noise = chance.choice((chance.randbytes(length), b"\0" * length, b'"', b"\n", b",", b"1e999"))
        kind = chance.choice(("change", "insert", "delete", "truncate", "repeat"))
        if kind == "truncate" and chance.random() < 0.3:
            del parts[place:]
        elif kind == "repeat":
            parts[place:place] = parts[max(0, place - length) : place]
        elif kind == "insert":
            parts[place:place] = noise
        else:
            parts[place : place + length] = noise if kind == "change" else b""
    return bytes(parts)


def _config(table: Path) -> RunConfig:
    tasks = ("weight", "kind", "sold")
    return RunConfig("table", "sims", "mlp:hidden=4", tasks=tasks, root=str(table), epochs=2, batch=64, select="best")


@cache
def _finished() -> tuple[Path, dict[str, Any]]:
    """Return the folder of a finished run and its checkpoint."""
    home = Path(tempfile.mkdtemp())
    table = write_table(home)
    train_and_report(resolve(_config(table)), home / "run")
    return home / "run", checkpoint(home / "run")


@cache
def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pa.table({"x": list(range(50)), "town": ["a", "b"] * 25}), buffer)
    return buffer.getvalue()


@cache
def _image(kind: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()
