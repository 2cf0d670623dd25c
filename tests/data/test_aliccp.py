"""Click logs: written and read again they are the same, in memory that does not grow with them."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from helpers.shared_data import shared
from torchsims.data.clicks import Clicks, _convert, convert, generate_clicks, open_log, write_raw
from torchsims.data.clicks._columns import append, moments, read_columns
from torchsims.data.clicks._log import COMMON, OWN, VALUED
from torchsims.workloads import load_workload


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    write_raw(tmp_path, "train", generate_clicks(3000, seed=0))
    write_raw(tmp_path, "test", generate_clicks(500, seed=1))
    return tmp_path


def test_the_generator_is_imbalanced_as_the_real_log() -> None:
    log = generate_clicks(200_000)
    assert 0.03 < log.click.mean() < 0.05
    assert 0.0002 < log.purchase.mean() < 0.005
    assert (log.purchase <= log.click).all()
    assert set(log.own) == {*OWN, *(f"D{f}" for f in OWN if f in VALUED)}
    assert set(log.common) == {*COMMON, *(f"D{f}" for f in COMMON if f in VALUED)}


def test_the_generator_is_seeded() -> None:
    one, same, other = (generate_clicks(2000, seed) for seed in (0, 0, 1))
    assert all((one.own[name] == same.own[name]).all() for name in one.own)
    assert (one.click == same.click).all()
    assert (one.own["206"] != other.own["206"]).any()


def test_a_column_without_spread_has_a_standard_deviation_of_one() -> None:
    assert moments(np.array([1.0, 3.0])) == (2.0, 1.0)
    assert moments(np.array([5.0, 5.0])) == (5.0, 1.0)
    assert moments(np.array([1.0, 9.0])) == (5.0, 4.0)


def decoded(log: Clicks, name: str, folder: Path) -> np.ndarray:
    """Return the ids behind the codes of all rows; 0 where they are not known."""
    known = np.concatenate([[0], read_columns(folder / "vocabulary")[name]])
    found: np.ndarray = known[log.columns([name], slice(None))[:, 0]]
    return found


def test_a_raw_log_that_is_written_and_converted_is_the_same(raw: Path) -> None:
    folder = convert(raw, min_count=1)
    log = open_log(folder).splits["train"]
    world = generate_clicks(3000, seed=0)
    assert (log.click == world.click).all()
    assert (log.purchase == world.purchase).all()
    for name in (*OWN, *COMMON):
        assert (decoded(log, name, folder) == world.columns([name], slice(None))[:, 0]).all(), name
    for name in (f"D{field}" for field in VALUED):
        assert (log.columns([name], slice(None)) == world.columns([name], slice(None))).all(), name


def test_rare_and_unseen_ids_share_code_zero(raw: Path) -> None:
    folder = convert(raw, min_count=3)
    log = open_log(folder)
    ids, counts = np.unique(generate_clicks(3000, seed=0).own["205"], return_counts=True)
    assert log.codes["205"] == 1 + (counts >= 3).sum()
    test, world = log.splits["test"], generate_clicks(500, seed=1)
    strange = ~np.isin(world.own["205"], ids[counts >= 3])
    assert ((test.own["205"] == 0) == strange).all()
    assert max(column.max() for name, column in test.own.items() if name == "205") < log.codes["205"]


def test_an_interrupted_conversion_goes_on_and_ends_the_same(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = convert(raw, raw / "whole")
    calls = []

    def interrupted(*args: Path) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write_codes(*args)

    write_codes = _convert._write_codes
    monkeypatch.setattr(_convert, "_write_codes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert(raw, raw / "other")
    assert not (raw / "other" / "log.json").exists()
    with pytest.raises(FileNotFoundError, match="There is no file"):
        open_log(raw / "other")
    monkeypatch.undo()
    path = raw / "sample_skeleton_train.csv"  # a step that is complete is not repeated ...
    stat = path.stat()
    path.write_bytes(b"x" * stat.st_size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other = convert(raw, raw / "other")
    files = {path.relative_to(whole) for path in whole.rglob("*.arrow")}
    assert files == {path.relative_to(other) for path in other.rglob("*.arrow")}
    assert all((whole / file).read_bytes() == (other / file).read_bytes() for file in files)
    assert json.loads((whole / "log.json").read_text()) == json.loads((other / "log.json").read_text())
    assert convert(raw, raw / "other") == other  # ... nor is a conversion


def test_callers_at_the_same_time_convert_once(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def write_ids(paths: list[Path], folder: Path) -> None:
        written.append(folder.name)
        time.sleep(0.05)  # the others get their turn
        original(paths, folder)

    original = _convert._write_ids
    monkeypatch.setattr(_convert, "_write_ids", write_ids)
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: convert(raw), range(4)))
    assert set(folders) == {raw / "columns"}
    assert written == ["train.part", "test.part"]
    assert len(open_log(folders[0]).splits["train"]) == 3000


def test_files_that_were_replaced_are_converted_again(raw: Path) -> None:
    folder = convert(raw)
    write_raw(raw, "train", generate_clicks(1000, seed=2))
    assert len(open_log(convert(raw)).splits["train"]) == 1000
    for path in raw.glob("*.csv"):
        path.unlink()  # the columns are enough
    assert len(open_log(convert(raw)).splits["train"]) == 1000
    assert folder == raw / "columns"


def test_a_folder_with_other_files_is_left_alone(raw: Path) -> None:
    (raw / "columns" / "train").mkdir(parents=True)
    (raw / "columns" / "train" / "photo.jpg").touch()
    with pytest.raises(ValueError, match="should be empty or hold converted columns"):
        convert(raw)
    assert (raw / "columns" / "train" / "photo.jpg").exists()


def break_line(path: Path, number: int, old: str, new: str) -> None:
    lines = path.read_text().split("\n")
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new, 1)
    path.write_text("\n".join(lines))


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("sample_skeleton_train.csv", ",", "", "should have 6 fields. Found 5"),
        ("sample_skeleton_train.csv", ",0,0,c", ",2,0,c", "should have labels 0 or 1. Found 2 and 0"),
        ("sample_skeleton_train.csv", ",0,0,c", ",0,0,x", "should name known common features. Found `x"),
        ("sample_skeleton_train.csv", "205\x02", "205\x02a", "should hold ids and numbers: invalid literal"),
        ("sample_skeleton_train.csv", "205\x02", "205\x029999999999", "should have ids below 2147483648"),
        ("common_features_train.csv", "\x01", " ", "should hold ids and numbers: 13 features but 12"),
        ("common_features_train.csv", "c6,", "c5,", "should have an id of its own. Found `c5` again"),
    ],
)
def test_a_bad_line_is_named(raw: Path, file: str, old: str, new: str, sentence: str) -> None:
    break_line(raw / file, 7, old, new)
    with pytest.raises(ValueError, match=f"Line 7 of `.*{file}` {sentence}"):
        convert(raw)


def test_a_purchase_without_a_click_is_left_out_and_counted(raw: Path) -> None:
    break_line(raw / "sample_skeleton_train.csv", 7, ",0,0,c", ",0,1,c")
    folder = convert(raw)
    assert len(open_log(folder).splits["train"]) == 2999
    assert json.loads((folder / "log.json").read_text())["dropped"] == {"train": 1, "test": 0}


def test_missing_files_and_other_settings_are_named(raw: Path) -> None:
    convert(raw)
    with pytest.raises(ValueError, match=r"have `min_count = 2`. Found `min_count = 5`"):
        convert(raw, min_count=5)
    shutil.rmtree(raw / "columns")
    (raw / "common_features_test.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"There is no file `.*common_features_test.csv`"):
        convert(raw)


MEASURE = """
import sys
from pathlib import Path
from torchsims.data.clicks import _columns, _convert, _raw

def convert_text(folder):
    paths = [folder / "sample_skeleton_train.csv", folder / "common_features_train.csv"]
    _convert._write_ids(paths, folder)

def convert_columns(folder):
    _convert._write_vocabularies(folder, 2, folder / "known")
    _convert._write_codes(folder, folder / "known", folder / "codes")

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

_convert.BLOCK = _columns.BLOCK = _raw.CHUNK = 1 << 12  # full in the shorter log too
found = []
for folder in sys.argv[2:]:
    globals()[sys.argv[1]](Path(folder))
    found.append(peak())
print(found[1] - found[0])
"""


def assert_memory_per_row(step: str, folders: dict[Path, int], limit: int) -> None:
    """Check by how much the largest memory of a process grows from the shorter log to the longer one."""
    command = [sys.executable, "-c", MEASURE, step, *map(str, folders)]
    short, long = folders.values()
    growth = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert growth < limit * (long - short)


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux writes the largest memory there")


@needs_proc
def test_the_memory_of_reading_does_not_grow_with_the_log(raw: Path, tmp_path: Path) -> None:
    """By less than 12 bytes per impression: 84 million would need less than 1 GB more."""
    text, folders = (raw / "sample_skeleton_train.csv").read_text(), {}
    for blocks in (10, 40):
        folder = tmp_path / str(blocks)
        folder.mkdir()
        shutil.copy(raw / "common_features_train.csv", folder)
        (folder / "sample_skeleton_train.csv").write_text(text * blocks)
        folders[folder] = 3000 * blocks
    assert_memory_per_row("convert_text", folders, 12)


@needs_proc
def test_the_memory_of_encoding_is_that_of_few_columns(tmp_path: Path) -> None:
    """Less than 32 bytes per impression, of the 64 it has here: 84 million need less than 3 GB."""
    names, folders = [*map(str, range(14)), "D1", "D2"], {}
    part = {name: np.random.default_rng(0).integers(1, 1000, 100_000, np.int32) for name in names}
    for rows in (200_000, 1_000_000):
        folder = tmp_path / str(rows)
        for name in ("own", "known", "codes"):
            (folder / name).mkdir(parents=True)
        append(folder / "own", [part] * (rows // 100_000))
        (folder / "info.json").write_text("{}")
        folders[folder] = rows
    assert_memory_per_row("convert_columns", folders, 32)


def test_the_preprocessed_form_is_read(tmp_path: Path) -> None:
    for path in shared("ali_ccp_sample").glob("ali_ccp_*.csv"):
        shutil.copyfile(path, tmp_path / path.name)
    workload = load_workload("aliccp:min_count=1", root=str(tmp_path))
    sizes = {name: len(workload.split(name)) for name in ("train", "val", "test")}  # type: ignore[arg-type]
    assert sizes == {"train": 100, "val": 50, "test": 50}
    lines = (tmp_path / "ali_ccp_train_sample.csv").read_text().splitlines()
    names, third = lines[0].split(","), [float(value) for value in lines[3].split(",")]
    log = open_log(tmp_path / "columns")
    train = log.splits["train"]
    assert (int(train.click[2]), int(train.purchase[2])) == (1, 1)
    for name, value in zip(names[2:], third[2:], strict=True):
        column = train.own[name] if name.startswith("D") else decoded(train, name, tmp_path / "columns")
        assert column[2] == pytest.approx(value), name
    assert sum(int(part.click.sum()) for part in log.splits.values()) == 12
    assert sum(int(part.purchase.sum()) for part in log.splits.values()) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("click,101\n0,1\n", "should have a column `purchase`"),
        ("click,purchase,101\n0,0,1.5\n", "Column `101` of `.*` should hold whole numbers"),
        ("click,purchase,101\n0,0,a\n", "Column `101` of `.*` should hold numbers"),
        ("click,purchase,101\n3,0,1\n", "Column `click` of `.*` should hold whole numbers from 0 to 1"),
        ("click,purchase,101\n1,0,1\n1,0\n", "Line 3 of `.*` should have 3 fields. Found 2"),
        ("click,purchase,101\n", "should have at least one impression"),
    ],
)
def test_a_bad_preprocessed_file_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "ali_ccp_test.csv").write_text("click,purchase,101\n1,1,1\n")
    (tmp_path / "ali_ccp_train.csv").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        convert(tmp_path)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="Parameter `min_count` should be positive"):
        convert("anywhere", min_count=0)
    with pytest.raises(ValueError, match="Parameter `rows` should be positive"):
        generate_clicks(0)


def test_columns_are_on_disk_once_for_common_features(raw: Path) -> None:
    folder = convert(raw)
    assert len(read_columns(folder / "train" / "common")["101"]) == 60  # users, not impressions
    assert open_log(folder).splits["train"].index is not None
