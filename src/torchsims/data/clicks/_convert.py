"""Files of text to columns, in steps that are whole or not there."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims.data.clicks._clicks import NUMBER
from torchsims.data.clicks._codes import encode_folder, moments, vocabulary
from torchsims.data.clicks._columns import blocks, finished, read_columns, write_columns
from torchsims.data.clicks._log import DESCRIPTION
from torchsims.data.clicks._preprocessed import read_preprocessed
from torchsims.data.clicks._raw import read_common, read_skeleton

__all__ = ["convert"]

RAW, CSV = "sample_skeleton_{}.csv", "ali_ccp_{}*.csv"
DROPPED = "dropped.json"


def convert(root: str | Path, out: str | Path | None = None, min_count: int = 2) -> Path:
    """Turn the files of a folder into columns, and return their folder; a step that was finished is not repeated.

    Reads either the raw files ``sample_skeleton_{train,test}.csv`` and ``common_features_{train,test}.csv``, each of
    which may end in ``.gz`` too, or preprocessed files ``ali_ccp_{train,val,test}*.csv``. Common features are stored
    once, not once an impression. Memory is bounded by the number of common features and of distinct ids of one field.
    Of several ids of a field in a line the first is kept; a purchase without a click is left out, and counted.

    Args:
        root: the folder of the files.
        out: where the columns go; ``root/columns`` by default.
        min_count: an id that occurs fewer times in training gets the code of those never seen.

    Example:
        >>> convert("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: There is no file `sample_skeleton_train.csv` or `ali_ccp_train*.csv` in `nowhere`.
    """
    if not min_count >= 1:
        raise ValueError(f"Parameter `min_count` should be positive. Found `min_count = {min_count}`.")
    root = Path(root)
    out = Path(out) if out is not None else root / "columns"
    if (out / DESCRIPTION).is_file():
        before = json.loads((out / DESCRIPTION).read_text())["min_count"]
        if before != min_count:
            raise ValueError(f"The columns in `{out}` have `min_count = {before}`. Found `min_count = {min_count}`.")
        return out
    sources = _sources(root)
    ids = {split: finished(out / "ids" / split, partial(_write_ids, source)) for split, source in sources.items()}
    known = finished(out / "vocabulary", partial(_write_vocabularies, ids["train"], min_count))
    for split, folder in ids.items():
        finished(out / split, partial(_write_codes, folder, known))
    _describe(out, list(sources), min_count)
    shutil.rmtree(out / "ids")
    return out


def _sources(root: Path) -> dict[str, Path]:
    """Return the file of every split: a raw one, or else a preprocessed one."""
    found = {}
    for split in ("train", "val", "test"):
        raw = RAW.format(split)
        paths = [p for p in (root / raw, root / f"{raw}.gz") if p.is_file()] or sorted(root.glob(CSV.format(split)))
        if paths:
            found[split] = paths[0]
        elif split != "val":
            raise FileNotFoundError(f"There is no file `{raw}` or `{CSV.format(split)}` in `{root}`.")
    return found


def _write_ids(source: Path, folder: Path) -> None:
    dropped: Counter[str] = Counter()
    if source.name.startswith("sample_skeleton"):
        places: dict[str, int] = {}
        other = source.with_name(source.name.replace("sample_skeleton", "common_features"))
        if not other.is_file():
            raise FileNotFoundError(f"There is no file `{other}`.")
        _write(folder / "common", read_common(other, places))
        rows = _write(folder / "own", read_skeleton(source, places, dropped))
    else:
        rows = _write(folder / "own", read_preprocessed(source, dropped))
    if not rows:
        raise ValueError(f"A click log should have at least one impression. Found none in `{source}`.")
    (folder / DROPPED).write_text(json.dumps(dropped["rows"]))


def _write(folder: Path, parts: Iterator[dict[str, NDArray[Any]]]) -> int:
    first = next(parts, None)
    if first is None:
        return 0
    return write_columns(folder, {name: column.dtype for name, column in first.items()}, chain([first], parts))


def _write_vocabularies(ids: Path, min_count: int, folder: Path) -> None:
    for part in ("own", "common"):
        for path in (ids / part).glob("*.npy"):
            if path.stem not in ("click", "purchase", "common") and not path.stem.startswith(NUMBER):
                np.save(folder / path.name, vocabulary(blocks(path), min_count))


def _write_codes(ids: Path, known: Path, folder: Path) -> None:
    vocabularies = read_columns(known)
    for part in ("own", "common"):
        encode_folder(ids / part, folder / part, vocabularies)
    shutil.copy(ids / DROPPED, folder / DROPPED)


def _describe(out: Path, splits: list[str], min_count: int) -> None:
    """Write what the log is; with this file the conversion is complete."""
    numbers = sorted((out / "train").glob(f"*/{NUMBER}*.npy"))
    description = {
        "splits": splits,
        "min_count": min_count,
        "codes": {name: len(known) + 1 for name, known in read_columns(out / "vocabulary").items()},
        "numbers": {path.stem: moments(blocks(path)) for path in numbers},
        "dropped": {split: json.loads((out / split / DROPPED).read_text()) for split in splits},
    }
    part = out / f"{DESCRIPTION}.part"
    part.write_text(json.dumps(description, indent=1))
    part.replace(out / DESCRIPTION)
