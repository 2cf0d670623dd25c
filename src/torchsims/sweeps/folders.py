"""Folders of runs: trained, reported, read back, and gathered for one table."""

import io
import json
import re
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from shlex import join
from time import perf_counter
from typing import Any

import numpy as np
import torch

from torchsims._limits import TooLargeError, check_archive
from torchsims._starvation import StarvationWarning
from torchsims.reporting import Row, run_report, write_report
from torchsims.training import Callback, Execution, Resolved, Run, RunConfig, TensorBoard, train
from torchsims.training.checkpoints import replace_file
from torchsims.training.presets import command_of, find_changes
from torchsims.training.run import Samples
from torchsims.training.world import launched

RESULTS, SAMPLES = "results.json", "samples.npz"
LONGEST_NAME = 160  # bytes of the name of a folder; a longer one is cut, and a digest tells it from others
FREE = ("method", "model", "rescale", "prefer", "evaluation", "seed", "split", "start", "tag")
"""Settings in which runs of one table may differ."""


def folder_name(config: RunConfig) -> str:
    """Return a name for the folder of a run among others on the same data.

    Example:
        >>> folder_name(RunConfig(model="hps", method="sims:tau=0.1", seed=2, rescale={"depth": 100.0}))
        'hps_sims_tau=0.1_depth=100_seed=2'
    """
    parts = [config.model, config.method, *(f"{task}={factor:g}" for task, factor in config.rescale.items())]
    parts += [f"prefer_{task}={factor:g}" for task, factor in config.prefer.items()]
    parts += [f"split={config.split}"] if config.split else []
    parts += [f"{config.tag}_lr={config.lr:g}"] if config.tag else []
    text = "_".join([*parts, f"seed={config.seed}"])
    name = re.sub(r"[^\w.=+-]", "-", text.replace(":", "_"))
    if len(name.encode()) <= LONGEST_NAME:
        return name
    return name.encode()[:LONGEST_NAME].decode(errors="ignore") + "-" + sha256(text.encode()).hexdigest()[:12]


def train_and_report(
    resolved: Resolved,
    folder: Path,
    *,
    callbacks: Sequence[Callback] = (),
    execution: Execution | None = None,
    draw: bool = False,
) -> Run:
    """Train, or resume, and write the results in the folder of the run; ``draw`` figures for its page.

    Example:
        >>> import tempfile
        >>> from torchsims.training import resolve
        >>> config = RunConfig("scenes:images=8:resolution=32", "ew", "hps:width=8", epochs=1, batch=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train_and_report(resolve(config), Path(folder))
        ...     read_run(Path(folder)).metrics == run.metrics
        True
    """
    begin = perf_counter()
    callbacks = [*callbacks, TensorBoard(folder / "tensorboard")]
    with launched() as world, warnings.catch_warnings(action="ignore", category=StarvationWarning):
        run = train(resolved, folder, callbacks=callbacks, execution=execution)  # callbacks report starved tasks
        if world.first:
            if run.samples:
                buffer = io.BytesIO()
                np.savez_compressed(buffer, allow_pickle=False, **run.samples)
                replace_file(folder / SAMPLES, buffer.getvalue())
            note, details = describe_preset(run.config)
            report = run_report(
                run,
                join(command_of(run.config)),
                draw=draw,
                settings={"threads": torch.get_num_threads(), "processes": world.size},
                notes=[note],
                details=details,
            )
            write_report(report, folder, perf_counter() - begin, into=True)
        world.wait()  # the other processes must not read an unfinished folder
    return run


def describe_preset(config: RunConfig, without: Sequence[str] = ()) -> tuple[str, dict[str, list[Row]]]:
    """Return a sentence on the preset of a run, and a table of what was changed, unless nothing was.

    Example:
        >>> from torchsims.training import complete_config
        >>> describe_preset(complete_config({"preset": "small", "epochs": 3}))[1]
        {'Changed from the preset': [{'setting': 'epochs', 'preset': '6', 'here': '3'}]}
    """
    found = {name: pair for name, pair in find_changes(config).items() if name not in without}
    if not found:
        return f"Settings: the preset {config.preset} as it is.", {}
    rows: list[Row] = [{"setting": name, "preset": str(a), "here": str(b)} for name, (a, b) in found.items()]
    return f"Settings: the preset {config.preset} with changes.", {"Changed from the preset": rows}


def read_run(folder: Path, config: RunConfig | None = None) -> Run | None:
    """Return the finished run in a folder, or None; raise an error if it is damaged or has another configuration."""
    path = folder / RESULTS
    if not path.exists():
        return None
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        samples: dict[str, Any] | None = None
        if (folder / SAMPLES).exists():
            check_archive(folder / SAMPLES)
            with np.load(folder / SAMPLES, allow_pickle=False) as arrays:
                samples = {name: arrays[name] for name in arrays.files}
            _check_samples(samples)
        settings = results["settings"].items()
        known = {name: value for name, value in settings if name in RunConfig.__dataclass_fields__}
        run = Run.from_dict(results["run"], RunConfig.from_dict(known), samples)
    except TooLargeError:
        raise
    except Exception as error:  # what a damaged file raises depends on the damage
        raise ValueError(
            f"The folder `{folder}` should hold a finished training run. Found none, or a damaged one."
        ) from error
    if config is not None and run.config != config:
        raise ValueError(
            f"The folder `{folder}` holds a run with another configuration: {join(command_of(run.config))}."
        )
    return run


def _check_samples(samples: Samples) -> None:
    """Raise an error unless the arrays are images, labels and predictions of the same size."""
    for name, array in samples.items():
        image, truth = samples["image"], samples[name.replace("prediction/", "truth/", 1)]
        pixels = array.ndim == 4 or (array.ndim == 3 and array.dtype.kind in "iu")
        same = len(array) == len(image) > 0 and array.shape[-2:] == image.shape[-2:] and array.shape == truth.shape
        if not (pixels and same and array.dtype.kind in "biuf" and array.size and image.shape[1:-2] == (3,)):
            raise ValueError(f"Array `{name}` should have the shape of the images. Found {array.shape}.")


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """Return the finished runs in folders that ``torchsims train`` or ``torchsims compare`` left.

    Runs that differ in more than method, model, rescaling and seed do not belong in one table: that is an error.

    Example:
        >>> find_runs([Path("no such folder")])
        Traceback (most recent call last):
        ValueError: There is no folder `no such folder`.
    """
    found: list[Run] = []
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"There is no folder `{folder}`.")
        inside = sorted((folder / "runs").iterdir()) if (folder / "runs").is_dir() else [folder]
        here = [run for run in map(read_run, inside) if run is not None]
        if not here:
            raise ValueError(f"There is no finished run in `{folder}`.")
        found += sorted(here, key=_order_in(folder))
    _check_alike(found)
    return found


def _order_in(folder: Path) -> Any:
    """Return a key that sorts runs as the table in their folder has them."""
    try:
        labels = [row["method"] for row in json.loads((folder / RESULTS).read_text(encoding="utf-8"))["rows"]]
    except (OSError, ValueError, KeyError, TypeError):  # without a table, in the order of the folders
        labels = []
    return lambda run: (labels.index(run.label) if run.label in labels else len(labels), run.split, run.seed)


def _check_alike(runs: Sequence[Run]) -> None:
    first = next((run for run in runs if not run.config.tag), runs[0]).config.to_dict()
    names = [{task: set(of) for task, of in run.metrics.items()} for run in runs if run.metrics]
    if any(found != names[0] for found in names):
        raise ValueError("All runs of a page should have the same metrics. Found others.")
    if len({run.fingerprint for run in runs if run.fingerprint}) > 1:
        raise ValueError("All runs of a page should be trained on the same data. Found data that changed in between.")
    seen: dict[str, dict[tuple[int, int], Run]] = {}
    for run in runs:
        for name, value in run.config.to_dict().items():
            free = (*FREE, "lr") if run.config.tag else FREE  # a tuned run has a learning rate of its own
            if name not in free and value != first[name]:
                raise ValueError(f"All runs of a page should have the same `{name}`. Found {first[name]} and {value}.")
        same = seen.setdefault(run.label, {})
        if (run.split, run.seed) in same:
            split = f", split {run.split}" if run.split else ""
            raise ValueError(f"Every run should be there once. Found two of {run.label} with seed {run.seed}{split}.")
        same[run.split, run.seed] = run
        other = next(iter(same.values())).config
        for name in ("model", "lr"):
            if (here := getattr(run.config, name)) != (there := getattr(other, name)):
                raise ValueError(f"All runs called {run.label} should have the same {name}. Found {there} and {here}.")
