"""A training run and its folder: the checkpoint while it trains, ``results.json`` once it is finished."""

import io
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from time import perf_counter
from typing import final
from zipfile import BadZipFile

import numpy as np
import torch

from torchsims._starvation import StarvationWarning
from torchsims.methods import Method
from torchsims.reporting import Advance, Progress, Report, Row, run_report, write_report
from torchsims.training import (
    Outcome,
    Settings,
    TensorBoard,
    Watch,
    launched,
    processes,
    replace_file,
    train,
)
from torchsims.training.config import RunConfig
from torchsims.training.run import History, Run

__all__ = ["Bar", "as_config", "changed", "command", "read_run", "read_run_with_settings", "shares", "train_run"]

RESULTS, SAMPLES = "results.json", "samples.npz"


def command(settings: Settings) -> str:
    """Return the command line that does a run again.

    Example:
        >>> command(Settings(method="ew", epochs=3, rescale={"depth": 100.0}))
        'torchsims train --data scenes --method ew --rescale depth=100 --epochs 3'
    """
    given, usual = settings.plain(), Settings().plain()
    parts = ["torchsims train", f"--data {quote(settings.data)}", f"--method {settings.method}"]
    for name, value in given.items():
        if name in ("data", "method") or value == usual[name]:
            continue
        if isinstance(value, dict):
            parts += [f"--{name} {quote(f'{key}={factor:g}')}" for key, factor in value.items()]
        else:
            text = ",".join(value) if isinstance(value, list) else value
            parts.append(f"--{name.replace('_', '-')} {quote(str(text))}")
    return " ".join(parts)


def changed(settings: Settings, but: Sequence[str] = ()) -> tuple[str, dict[str, list[Row]]]:
    """Return a sentence on the preset of a run, and a table of what was changed, unless nothing was.

    Args:
        settings: of the run.
        but: settings that are not looked at.

    Example:
        >>> changed(Settings.of("small", epochs=3))[1]
        {'Changed from the preset': [{'setting': 'epochs', 'preset': '6', 'here': '3'}]}
    """
    found = {name: pair for name, pair in settings.changes().items() if name not in but}
    if not found:
        return f"Settings: the preset `{settings.preset}` as it is.", {}
    rows: list[Row] = [{"setting": name, "preset": str(a), "here": str(b)} for name, (a, b) in found.items()]
    return f"Settings: the preset `{settings.preset}` with changes.", {"Changed from the preset": rows}


@final
class Bar(Watch):
    """Shows the progress of a run, and its losses.

    Args:
        progress: what to show it with.
        name: of the run.
        say: called with a warning.
    """

    def __init__(self, progress: Progress, name: str, say: Callable[[str], None] = lambda sentence: None) -> None:
        self._progress, self._name, self._say = progress, name, say
        self._advance: Advance | None = None

    def start(self, step: int, steps: int) -> None:
        self._advance = self._progress(self._name, steps)
        self._advance(step)

    def step(self, step: int, values: Mapping[str, float]) -> None:
        assert self._advance is not None
        losses = [f"{n.removeprefix('losses/')} {v:.3g}" for n, v in values.items() if n.startswith("losses/")]
        self._advance(1, "  ".join(losses))

    def warn(self, sentence: str) -> None:
        self._say(sentence)


def shares(seconds: Mapping[str, float]) -> list[Row]:
    """Return where the time of a run went.

    Example:
        >>> shares({"data": 1.0, "step": 3.0})
        [{'part': 'data', 'seconds': 1.0, 'share': 0.25}, {'part': 'step', 'seconds': 3.0, 'share': 0.75}]
    """
    total = sum(seconds.values())
    return [{"part": part, "seconds": time, "share": time / total} for part, time in seconds.items()]


def train_run(
    settings: Settings,
    folder: Path,
    *,
    watches: Sequence[Watch] = (),
    checkpoint_every: int = 0,
    workers: int = 0,
    draw: bool = False,
) -> tuple[Run, Mapping[str, float]]:
    """Train, or go on, and leave the results in the folder; return the run, and where its time went.

    Args:
        settings: what to do.
        folder: of this run alone.
        watches: who looks on.
        checkpoint_every: as in :func:`torchsims.training.train`.
        workers: processes that load data.
        draw: whether to add figures.
    """
    begin = perf_counter()
    watches = [*watches, TensorBoard(folder / "tensorboard")]
    with launched() as world, warnings.catch_warnings(action="ignore", category=StarvationWarning):  # watches hear it
        outcome = train(settings, folder, watches=watches, checkpoint_every=checkpoint_every, workers=workers)
        run = _as_run(outcome)
        if world.first:
            _leave(outcome, run, folder, perf_counter() - begin, draw)
        world.wait()  # nobody reads what is not written yet
    return run, outcome.seconds


def _leave(outcome: Outcome, run: Run, folder: Path, seconds: float, draw: bool) -> None:
    """Write what a run found."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **outcome.samples)
    replace_file(folder / SAMPLES, buffer.getvalue())
    write_report(_report(outcome.settings, run, draw), folder, seconds, into=True)


def read_run(folder: Path, settings: Settings | None = None) -> Run | None:
    """Return a finished run, or nothing if there is none; refuse one with settings other than those expected."""
    found = read_run_with_settings(folder)
    if found is None:
        return None
    if settings is not None and found[1] != settings:
        raise ValueError(f"The folder `{folder}` holds a run with other settings: {command(found[1])}.")
    return found[0]


def read_run_with_settings(folder: Path) -> tuple[Run, Settings] | None:
    """Return a finished run and its settings, or nothing if there is none."""
    path = folder / RESULTS
    if not path.exists():
        return None
    try:
        results = json.loads(path.read_text())
        settings = Settings.recorded(results["settings"])
        samples = None
        if (folder / SAMPLES).exists():
            with np.load(folder / SAMPLES, allow_pickle=False) as arrays:
                samples = {name: arrays[name] for name in arrays.files}
        run = Run.from_dict(results["run"], as_config(settings), samples)
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError, BadZipFile) as error:
        raise ValueError(f"The folder `{folder}` does not hold a finished training run, or a damaged one.") from error
    return run, settings


def as_config(settings: Settings) -> RunConfig:
    """Return the settings as a config."""
    values = settings.plain()
    return RunConfig(**values | {"root": settings.root or "", "tasks": settings.tasks})


def _as_run(outcome: Outcome) -> Run:
    settings, curves = outcome.settings, outcome.history
    names = ("losses", "weights", "merit", "validation")
    unscaled = replace(settings, rescale={}).label if settings.rescale else None
    return Run(
        settings.label,
        as_config(settings),
        outcome.metrics,
        outcome.better,
        History.from_dict({name: curves[name] for name in names}),
        passes=Method(settings.method).passes,
        rescaled=unscaled,
        starved=outcome.starved,
        seconds=outcome.seconds,
        samples=outcome.samples,
    )


def _report(settings: Settings, run: Run, draw: bool) -> Report:
    preset, details = changed(settings)
    machine = {"root": settings.root, "threads": torch.get_num_threads(), "processes": processes()}
    return run_report(run, command(settings), draw=draw, settings=machine, notes=[preset], details=details)
