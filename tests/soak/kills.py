"""Processes are killed at random moments of a run, of a comparison, or of saving; then what they left is resumed."""

import io
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch

from helpers.processes import CONTEXT
from helpers.small_tables import write_table
from helpers.training_cases import assert_same_tensors, checkpoint
from torchsims.training import Execution, RunConfig, train
from torchsims.training.checkpoints import PREVIOUS, checkpoint_bytes, read_checkpoint, write_checkpoint

MOST_KILLS = 4
METHODS = ("sims", "logmerit", "famo", "uw", "ew:normalizer=ema")
COMPARED = "ew,sims"


def kill_while_training(chance: Random, folder: Path) -> None:
    """Kill a run several times, resume it, and compare it with the run that was never stopped."""
    method, every = chance.choice(METHODS), chance.randrange(4)
    table, expected, seconds = _reference(method)
    for _ in range(chance.randint(1, MOST_KILLS)):
        _kill_after(chance.random() * seconds, _train, str(table), method, str(folder), every)
    _wait_for(_train, str(table), method, str(folder), every)
    assert_same_tensors(checkpoint(folder), expected)
    assert checkpoint(folder)["trainer"]["history"] == expected["trainer"]["history"]


def kill_while_comparing(chance: Random, folder: Path) -> None:
    """Kill a comparison, resume it, and compare its rows with those of one that was never stopped."""
    jobs, seconds = chance.choice((1, 1, 2)), _reference("sims")[2]
    words = ["compare", *_words(_reference("sims")[0]), "--methods", COMPARED, "--jobs", str(jobs)]
    words += ["--checkpoint-every", "1", "--out", str(folder / "out")]
    _kill_after(chance.random() * (2 if jobs == 1 else 8) * seconds, _command, words)
    resumed = ["--resume"] if (folder / "out" / "runs").exists() else []
    _wait_for(_command, [*words, *resumed])
    rows = json.loads((folder / "out" / "results.json").read_text())["rows"]
    assert rows == _rows(), f"{rows} instead of {_rows()}"


def kill_while_saving(chance: Random, folder: Path) -> None:
    """Kill a process that saves one checkpoint after another: the last one and the one before can be read."""
    _kill_after(0.3 + 0.5 * chance.random(), _save_for_ever, str(folder), chance.randrange(1, 1 << 18))
    states = [read_checkpoint(path) for name in ("checkpoint.pt", PREVIOUS) if (path := folder / name).exists()]
    for state in states:
        assert torch.equal(state["values"], torch.full_like(state["values"], state["epoch"]))
    if len(states) == 2:
        assert states[0]["epoch"] - states[1]["epoch"] in (0, 1)


def _words(table: Path) -> list[str]:
    return ["--csv", str(table), "--targets", "weight,kind,sold", "--model", "mlp:hidden=8", "--epochs", "3"]


def _config(table: str, method: str) -> RunConfig:
    tasks = ("weight", "kind", "sold")
    return RunConfig("table", method, "mlp:hidden=8", tasks=tasks, root=table, epochs=4, batch=32, select="best")


def _train(table: str, method: str, folder: str, every: int) -> None:
    train(_config(table, method), Path(folder), execution=Execution(checkpoint_every=every))


def _save_for_ever(folder: str, size: int) -> None:
    epoch = 0
    while True:
        write_checkpoint(
            Path(folder), checkpoint_bytes(RunConfig(), {"epoch": epoch, "values": torch.full((size,), float(epoch))})
        )
        epoch += 1


def _command(words: list[str]) -> None:
    from torchsims import cli

    os.setpgrp()  # its workers end with it
    sys.argv = ["torchsims", *words]
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said):
            cli.main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(said.getvalue()) from end


@cache
def _reference(method: str) -> tuple[Path, dict[str, Any], float]:
    """Return a table, the checkpoint of a run on it that was never stopped, and how long it took."""
    home = Path(tempfile.mkdtemp())
    table = write_table(home)
    begin = time.monotonic()
    _wait_for(_train, str(table), method, str(home / "run"), 0)
    return table, checkpoint(home / "run"), time.monotonic() - begin


@cache
def _rows() -> list[dict[str, Any]]:
    table, _, _ = _reference("sims")
    out = table.parent / "compared"
    _wait_for(_command, ["compare", *_words(table), "--methods", COMPARED, "--jobs", "1", "--out", str(out)])
    rows: list[dict[str, Any]] = json.loads((out / "results.json").read_text())["rows"]
    return rows


def _kill_after(seconds: float, function: Callable[..., None], *arguments: Any) -> None:
    process = CONTEXT.Process(target=_quietly, args=(function, *arguments))
    process.start()
    process.join(seconds)
    assert process.pid is not None
    for kill in (os.killpg, os.kill):  # the group of a comparison, and a process that has no group yet
        with suppress(ProcessLookupError):
            kill(process.pid, signal.SIGKILL)
    process.join()


def _wait_for(function: Callable[..., None], *arguments: Any) -> None:
    process = CONTEXT.Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{function.__name__}{arguments} ended with code {process.exitcode}.")


def _quietly(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a process that will be killed: what it prints is of no interest."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        function(*arguments)
