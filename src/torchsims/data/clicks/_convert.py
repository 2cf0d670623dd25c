"""The files of Ali-CCP to columns on disk, in steps that are either complete or absent."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchsims._extras import needs
from torchsims.data.clicks._columns import BLOCK, append, columns_in, moments, read_column, read_columns
from torchsims.data.clicks._log import DESCRIPTION, NUMBER
from torchsims.data.clicks._raw import LARGEST, read_common, read_skeleton
from torchsims.data.tables._csv import read_batches
from torchsims.data.tables._format import Format

RAW, COMMON, CSV = "sample_skeleton_{}.csv", "common_features_{}.csv", "ali_ccp_{}*.csv"
SOURCES, LOCK, INFO = "sources.json", ".lock", "info.json"
LABELS = ("click", "purchase")
Column = NDArray[Any]


def convert(root: str | Path, out: str | Path | None = None, min_count: int = 2) -> Path:
    """Convert the files of a folder to columns once, and return the folder of the columns.

    Reads either the raw files ``sample_skeleton_{train,test}.csv`` and ``common_features_{train,test}.csv``, each of
    which may end in ``.gz`` too, or preprocessed files ``ali_ccp_{train,val,test}*.csv``. Common features are stored
    once, not once per impression. Memory is bounded by the common features and by one column of codes. If a line has
    several ids of a field, the first is kept; a purchase without a click is left out, and counted.

    Several processes may call this at the same time: one converts, the others wait. A conversion that was interrupted
    is continued; if the files were replaced since, they are converted again. The columns are written to ``out``,
    ``root/columns`` by default; ids that occur fewer than ``min_count`` times in training share the code of unknown
    ids. Needs the extra ``[tables]``.

    Example:
        >>> convert("nowhere")
        Traceback (most recent call last):
        FileNotFoundError: There is no file `sample_skeleton_train.csv` or `ali_ccp_train*.csv` in `nowhere`.
    """
    if not min_count >= 1:
        raise ValueError(f"Parameter `min_count` should be positive. Found `min_count = {min_count}`.")
    root = Path(root)
    out = Path(out) if out is not None else root / "columns"
    if not _is_converted(root, out, min_count):
        sources = _sources(root)
        with needs("tables"):
            from filelock import FileLock
        out.mkdir(parents=True, exist_ok=True)
        with FileLock(out / LOCK):
            if not _is_converted(root, out, min_count):  # by another process, while this one waited
                _convert(sources, out, min_count)
    return out


def _is_converted(root: Path, out: Path, min_count: int) -> bool:
    if not (out / DESCRIPTION).is_file():
        return False
    before = json.loads((out / SOURCES).read_text())
    with suppress(FileNotFoundError):  # columns are enough: the files they were made from may be gone
        if _state(_sources(root), min_count)["files"] != before["files"]:
            return False
    if (known := before["min_count"]) != min_count:
        raise ValueError(f"The columns in `{out}` have `min_count = {known}`. Found `min_count = {min_count}`.")
    return True


def _sources(root: Path) -> dict[str, list[Path]]:
    """Return the files of every split: the impressions and their common features, or one preprocessed file."""
    found = {}
    for split in ("train", "val", "test"):
        raw = RAW.format(split)
        if _one_of(root, raw):
            common = COMMON.format(split)
            if not _one_of(root, common):
                raise FileNotFoundError(f"There is no file `{root / common}`.")
            found[split] = _one_of(root, raw) + _one_of(root, common)
        elif paths := sorted(root.glob(CSV.format(split))):
            found[split] = paths[:1]
        elif split != "val":
            raise FileNotFoundError(f"There is no file `{raw}` or `{CSV.format(split)}` in `{root}`.")
    return found


def _one_of(root: Path, name: str) -> list[Path]:
    return [path for path in (root / name, root / f"{name}.gz") if path.is_file()][:1]


def _state(sources: Mapping[str, list[Path]], min_count: int) -> dict[str, Any]:
    """Return what columns are made from, with the size and the time of every file, in case it is replaced."""
    stats = {path.name: path.stat() for paths in sources.values() for path in paths}
    files = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
    return {"files": files, "min_count": min_count}


def _convert(sources: Mapping[str, list[Path]], out: Path, min_count: int) -> None:
    state, steps = _state(sources, min_count), ["ids", "vocabulary", "train", "val", "test"]
    known_state = (out / SOURCES).is_file()
    if not known_state and any((out / step).exists() for step in steps):
        raise ValueError(f"Folder `{out}` should be empty or hold converted columns. Found other files.")
    if not known_state or json.loads((out / SOURCES).read_text()) != state:
        (out / DESCRIPTION).unlink(missing_ok=True)
        for step in steps:
            shutil.rmtree(out / step, ignore_errors=True)
        _write_json(out / SOURCES, state)
    ids = {split: _step(out / "ids" / split, partial(_write_ids, paths)) for split, paths in sources.items()}
    known = _step(out / "vocabulary", partial(_write_vocabularies, ids["train"], min_count))
    for split, folder in ids.items():
        _step(out / split, partial(_write_codes, folder, known))
    _describe(out, list(sources))
    shutil.rmtree(out / "ids")


def _step(folder: Path, write: Callable[[Path], None]) -> Path:
    """Return a folder; if it is absent, ``write`` fills another one, which is renamed when it is complete."""
    if not folder.is_dir():
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        write(part)
        part.replace(folder)
    return folder


def _write_ids(paths: list[Path], folder: Path) -> None:
    dropped: Counter[str] = Counter()
    if len(paths) == 2:
        places: dict[str, int] = {}
        append(folder / "common", read_common(paths[1], places))
        rows = append(folder / "own", read_skeleton(paths[0], places, dropped))
    else:
        rows = append(folder / "own", _read_preprocessed(paths[0], dropped))
    if not rows:
        raise ValueError(f"A click log should have at least one impression. Found none in `{paths[0]}`.")
    _write_json(folder / INFO, {"dropped": dropped["rows"]})


def _read_preprocessed(path: Path, dropped: Counter[str]) -> Iterator[dict[str, Column]]:
    """Yield the columns of a CSV file with ``click``, ``purchase``, one column per field, and numbers D*."""
    names, batches = read_batches(path)
    for label in LABELS:
        if label not in names:
            raise ValueError(f"A click log should have a column `{label}`. Found none in `{path}`.")
    for batch in batches:
        part = {name: _as_ids(path, name, batch[name]) for name in names}
        legal = part["click"] >= part["purchase"]
        dropped["rows"] += int((~legal).sum())
        yield {name: column[legal] for name, column in part.items()}


def _as_ids(path: Path, name: str, texts: Any) -> Column:
    numbers = Format().to_numbers(texts)
    if numbers is None:
        raise ValueError(f"Column `{name}` of `{path}` should hold numbers.")
    if name.startswith(NUMBER):
        return numbers.astype(np.float32)
    limit = 2 if name in LABELS else LARGEST
    if not ((numbers >= 0) & (numbers < limit) & (numbers == np.floor(numbers))).all():
        raise ValueError(f"Column `{name}` of `{path}` should hold whole numbers from 0 to {limit - 1}.")
    return numbers.astype(np.int32)


def _write_vocabularies(ids: Path, min_count: int, folder: Path) -> None:
    for path in (*columns_in(ids / "own"), *columns_in(ids / "common")):
        name = path.stem
        if name not in (*LABELS, "common") and not name.startswith(NUMBER):
            found = read_column(path).value_counts()
            known, counts = (found.field(field).to_numpy() for field in ("values", "counts"))
            append(folder, [{name: np.sort(known[(counts >= min_count) & (known != 0)])}])


def _write_codes(ids: Path, known: Path, folder: Path) -> None:
    """Write every column of a split; the code of an id is its place in the vocabulary from 1 up, 0 if it has none."""
    vocabularies, numbers = read_columns(known), {}
    for path in (*columns_in(ids / "own"), *columns_in(ids / "common")):
        name, column = path.stem, np.concatenate(read_column(path).chunks)
        if name in vocabularies:
            _encode(column, vocabularies[name])
        elif name.startswith(NUMBER):
            numbers[name] = moments(column)
        append(folder / path.parent.name, [{name: column.astype(np.uint8) if name in LABELS else column}])
    _write_json(folder / INFO, json.loads((ids / INFO).read_text()) | {"numbers": numbers})


def _encode(column: Column, known: Column) -> None:
    """Replace ids by codes, in place."""
    sought = np.append(known, -1)  # one more, for ids above all others
    for start in range(0, len(column), BLOCK):
        ids = column[start : start + BLOCK]
        place = np.searchsorted(known, ids)
        ids[:] = np.where(sought[place] == ids, place + 1, 0)


def _describe(out: Path, splits: list[str]) -> None:
    """Write what the log is; with this file the conversion is complete."""
    info = {split: json.loads((out / split / INFO).read_text()) for split in splits}
    description = {
        "splits": splits,
        "codes": {name: len(known) + 1 for name, known in read_columns(out / "vocabulary").items()},
        "numbers": dict(sorted(info["train"]["numbers"].items())),
        "dropped": {split: values["dropped"] for split, values in info.items()},
    }
    _write_json(out / DESCRIPTION, description)


def _write_json(path: Path, values: Any) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(values, indent=1))
    part.replace(path)
