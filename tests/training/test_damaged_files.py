"""Damaged checkpoints and results: every command on them does its work or says one sentence, and never a traceback."""

import json
import shutil
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import torchsims
from helpers.commands import Call
from helpers.damage import damage
from helpers.finished_runs import finished_run
from helpers.small_tables import write_table
from helpers.training_cases import checkpoint
from torchsims.sweeps import find_runs, train_and_report
from torchsims.sweeps.folders import read_run
from torchsims.training import Callback, History, Run, RunConfig, resolve
from torchsims.training.run import Metrics

EDITS = 15


class StopAfterOneEpoch(Callback):
    def on_epoch(self, step: int, metrics: Metrics) -> None:
        raise InterruptedError


@pytest.fixture(autouse=True)
def _blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **options: save(Figure((1, 1)), *args, **options))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("damaged"))


def config(table: Path) -> RunConfig:
    tasks = ("weight", "kind", "sold")
    return RunConfig(
        "table", "sims", "mlp:hidden=4", tasks=tasks, root=str(table), epochs=2, batch=64, lr=1e-3, select="best"
    )


@pytest.fixture(scope="module")
def stopped(table: Path) -> dict[str, Any]:
    """Return the checkpoint of a run that stopped after its first epoch."""
    with pytest.raises(InterruptedError):
        train_and_report(resolve(config(table)), table.parent / "stopped", callbacks=[StopAfterOneEpoch()])
    return checkpoint(table.parent / "stopped")


@pytest.fixture(scope="module")
def finished(table: Path) -> Path:
    train_and_report(resolve(config(table)), table.parent / "finished")
    return table.parent / "finished"


def assert_works_or_says_one_sentence(call: Call, capsys: pytest.CaptureFixture[str], edit: str, *words: object) -> int:
    """Run a command, whose every exception but `SystemExit` fails the test; return its exit code."""
    code = call(*words)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("torchsims: ")]
    assert (code, len(said)) in ((0, 0), (1, 1), (2, 1)), f"{words[0]} after {edit}: {said}"
    return code


@pytest.mark.parametrize("part", ["", "trainer", "method"])
def test_checkpoints(
    part: str,
    stopped: dict[str, Any],
    table: Path,
    call: Call,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance, path, failed = Random(len(part)), tmp_path / "run" / "checkpoint.pt", 0
    for number in range(EDITS):
        if part == "method":
            edit, method = damage(stopped["trainer"]["method"], chance)
            edited = {**stopped, "trainer": {**stopped["trainer"], "method": method}}
        else:
            edit, found = damage(stopped[part] if part else stopped, chance)
            edited = {**stopped, part: found} if part else found
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        path.parent.mkdir()
        torch.save(edited, path)
        commands = [["train", "--resume", "--out", path.parent]]
        if not part:  # predictions look at nothing else
            commands = [
                ["predict", path.parent, table, "--out", tmp_path / f"predict{number}"],
                ["export", path.parent, "--out", tmp_path / f"export{number}"],
                *commands,
            ]
        for words in commands:
            failed += assert_works_or_says_one_sentence(call, capsys, edit, *words) > 0
    assert failed >= EDITS // 2


@pytest.mark.parametrize("part", ["run", "history", "settings"])
def test_results(part: str, finished: Path, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, chance = json.loads((finished / "results.json").read_text()), Random(len(part))
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(EDITS):
        if part == "history":
            edit, history = damage(results["run"]["history"], chance)
            edited = {**results, "run": {**results["run"], "history": history}}
        else:
            edit, found = damage(results[part], chance)
            edited = {**results, part: found}
        (folder / "results.json").write_text(json.dumps(edited))
        assert_works_or_says_one_sentence(call, capsys, edit, "report", folder, "--out", tmp_path / f"page{number}")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[1]", b'{"settings": 3}', b"\xff\xfe", b"[" * 5000, b"PK\3\4"]
)
def test_files_of_something_else(
    content: bytes, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, words in {"results.json": ["report"], "checkpoint.pt": ["train", "--resume", "--out"]}.items():
        (tmp_path / name).write_bytes(content)
        assert assert_works_or_says_one_sentence(call, capsys, name, *words, tmp_path) == 2
    with pytest.raises(ValueError, match="truncated or damaged"):
        torchsims.load(tmp_path)


def test_compressed_checkpoints_are_not_unpacked(stopped: dict[str, Any], tmp_path: Path) -> None:
    torch.save(stopped, tmp_path / "small.pt")
    with zipfile.ZipFile(tmp_path / "small.pt") as one, zipfile.ZipFile(tmp_path / "checkpoint.pt", "w", 8) as other:
        for name in one.namelist():
            other.writestr(name, one.read(name))
    with pytest.raises(ValueError, match="truncated or damaged"):
        torchsims.load(tmp_path)


def test_samples(tmp_path: Path) -> None:
    from torchsims.reporting import run_report, write_report

    run = finished_run("EW", 0, pictures=True)
    samples = dict(run.samples or {})
    write_report(run_report(run, "", draw=False), tmp_path, 0.0, into=True)
    edits: list[dict[str, Any]] = [{name: array[..., :-1]} for name, array in samples.items()]
    edits += [{name: array[:1]} for name, array in samples.items()]
    edits += [{"image": samples["truth/depth"]}, {"truth/seg": np.array(["text"])}, {"truth/depth": np.float64(1)}]
    for edit in edits:
        np.savez(tmp_path / "samples.npz", allow_pickle=False, **(samples | edit))
        with pytest.raises(ValueError, match="Found none, or a damaged one"):
            read_run(tmp_path)
    np.savez(tmp_path / "samples.npz", allow_pickle=False, **samples)
    assert read_run(tmp_path) is not None


def test_runs_with_other_metrics_do_not_share_a_page(tmp_path: Path) -> None:
    from torchsims.reporting import run_report, write_report

    for label, metrics in (("EW", {"seg": {"miou": 0.5}}), ("SIMS", {"seg": {"iou": 0.5}})):
        run = Run(label, RunConfig(), metrics, {"seg": dict.fromkeys(metrics["seg"], True)}, History())
        (tmp_path / label).mkdir()
        write_report(run_report(run, "", draw=False), tmp_path / label, 0.0, into=True)
    with pytest.raises(ValueError, match="same metrics"):
        find_runs([tmp_path / "EW", tmp_path / "SIMS"])


def test_the_size_of_a_history_does_not_grow_with_the_steps_of_an_epoch() -> None:
    sizes = []
    for steps in (1, 1000):
        history = History()
        for _ in range(steps):
            history.record({"depth": 2.0}, {"depth": 1.0}, 1.0)
        sizes.append(len(json.dumps(history.to_dict()["open_sums"]).translate({ord(c): None for c in "0123456789."})))
    assert sizes[0] == sizes[1]
