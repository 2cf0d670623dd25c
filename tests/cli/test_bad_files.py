"""Bad files, seen from the command line: the error names them, what was trained is saved, and the run goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.commands import Call
from helpers.small_folders import SPOILED, write_pascal, write_scenes
from helpers.training_cases import checkpoint
from torchsims.training import RunConfig, Trainer, resolve
from torchsims.training.batches import training_batches

QUICK = ["--model", "hps:width=8", "--method", "sims", "--epochs", "1", "--batch", "1"]


@pytest.fixture
def after_one_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen once, between the first step of a run and the second."""
    step = Trainer.step

    def prepare(act: Callable[[], object]) -> None:
        def patched(trainer: Trainer, *micro_batches: Any) -> None:
            step(trainer, *micro_batches)
            if trainer.step_number == 1:
                act()

        monkeypatch.setattr(Trainer, "step", patched)

    return prepare


def last_item(data: str, root: Path, items: int) -> int:
    """Return which photograph the last step of the only epoch sees."""
    (last,) = training_batches(items, 1, 0, 0)[-1].tolist()
    split: Any = resolve(RunConfig(data=data, root=str(root))).workload.split("train")
    index: int = split.indices[last]
    return index


def assert_named_saved_and_going_on(
    path: Path,
    sentence: str,
    arguments: list[str],
    call: Call,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Check a run that finds a bad file after all steps but one, and the same run once the file is repaired."""
    content = path.read_bytes()
    assert call("train", *arguments, "--out", tmp_path / "run") == 1
    *_, error = capsys.readouterr().err.strip().splitlines()
    assert error.startswith("torchsims: ")
    assert sentence in error
    assert path.name in error
    assert str(path) in error or f"`train` of `{path.parents[2]}`" in error  # two files whose sizes do not fit
    assert error.endswith(f"What was trained before is saved in {tmp_path / 'run'}.")
    assert checkpoint(tmp_path / "run")["trainer"]["step"] == 2
    path.write_bytes(content)
    assert call("train", "--resume", "--out", tmp_path / "run") == 0
    assert checkpoint(tmp_path / "run")["epoch"] == 1


@pytest.mark.parametrize("what", SPOILED)
def test_arrays(
    what: str,
    after_one_step: Callable[[Callable[[], object]], None],
    call: Call,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, data = tmp_path / "rooms", "nyuv2:validation=0"
    for split in ("train", "val"):
        write_scenes(root, split, size=3)
    folder, spoil, sentence = SPOILED[what]
    path = root / "train" / folder / f"{last_item(data, root, 3)}.npy"
    after_one_step(lambda: spoil(path))
    arguments = ["--data", data, "--root", str(root), "--tasks", "seg,depth", *QUICK]
    assert_named_saved_and_going_on(path, sentence, arguments, call, tmp_path, capsys)


def write_photographs(root: Path) -> None:
    write_pascal(root)
    lists = root / "ImageSets" / "Context"
    shutil.copy(lists / "train.txt", lists / "val.txt")


@pytest.mark.parametrize(("folder", "suffix"), [("JPEGImages", "jpg"), ("semseg/VOC12", "png"), ("human_parts", "mat")])
def test_pictures(
    folder: str,
    suffix: str,
    after_one_step: Callable[[Callable[[], object]], None],
    call: Call,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root, data = tmp_path / "pascal", "pascal:height=32:width=48:validation=0"
    write_photographs(root)
    name = (root / "ImageSets" / "Context" / "train.txt").read_text().split()[last_item(data, root, 3)]
    path = root / folder / f"{name}.{suffix}"
    after_one_step(lambda: path.write_bytes(path.read_bytes()[:60]))
    arguments = ["--data", data, "--root", str(root), "--tasks", "seg,parts", *QUICK]
    assert_named_saved_and_going_on(path, "cannot be read", arguments, call, tmp_path, capsys)


@pytest.mark.parametrize("split", ["train", "val"])
@pytest.mark.parametrize("name", ["nyuv2", "pascal"])
def test_an_empty_split_is_refused_before_anything_is_done(
    name: str,
    split: str,
    call: Call,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / name
    if name == "nyuv2":
        for each in ("train", "val"):
            write_scenes(root, each, size=2)
        for path in (root / split).rglob("*.npy"):
            path.unlink()
    else:
        write_photographs(root)
        (root / "ImageSets" / "Context" / f"{split}.txt").write_text("\n")
    assert call("train", "--data", name, "--root", root, *QUICK, "--out", tmp_path / "run") == 2
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert str(root) in error
    assert split in error.partition("Missing: ")[2]
    assert not (tmp_path / "run").exists()
