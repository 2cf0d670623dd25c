"""Configuration as plain data: what a run does, and how it is executed. Nothing here imports torch or reads data."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from torchsims.registry import choose, option_text, split_list

T = TypeVar("T", bound="RunConfig")
NAMES = ("tasks", "categories", "dates", "numbers", "ignore")
"""Settings that hold names of tasks or columns, which are quoted where they hold a comma."""


def setting(
    default: Any,
    help: str,  # noqa: A002  # what typer calls it
    *flags: str,
    single: str = "",
    workload: bool = False,
    minimum: int | None = None,
) -> Any:
    """Declare a setting: the command line, the config file and the page all follow from it.

    ``flags`` are its names on the command line, ``--name`` by default; ``single`` is the option that takes one name of
    a list as it is, commas included. ``workload`` says that the value is an argument
    of the data set, which may not have it; ``minimum`` is the smallest number that the command line takes.
    """
    metadata = {"help": help, "flags": flags, "single": single, "workload": workload, "minimum": minimum}
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run finds, as plain data.

    Making, printing or comparing one checks nothing, builds nothing and reads no file:
    :func:`torchsims.training.resolve` turns it into objects and raises every error about it.

    Example:
        >>> config = RunConfig(method="sims:tau=1", epochs=3)
        >>> RunConfig.from_dict(config.to_dict()) == config
        True
    """

    data: str = setting("scenes", "Data set, with options: scenes:images=512:resolution=96, or package.module:Class.")
    method: str = setting("sims", "Method, with options: sims:tau=1:ratio=5, or package.module:Class.")
    model: str = setting("", "Architecture, with options: hps:width=32, stl, or package.module:Class; the data's own.")
    preset: str = setting(
        "default", "Settings that suit the data: default, small; of real data: paper, ablation, authors."
    )
    tasks: tuple[str, ...] = setting(
        (),
        "Tasks to train, separated by commas; all by default. Of a table, its columns.",
        "--tasks",
        "--targets",
        single="--target",
    )
    root: str = setting(
        "", "Folder of the data set. Of a table, the file: CSV, TSV, Parquet, Feather.", "--root", "--csv"
    )
    types: tuple[str, ...] = setting(
        (), "Types of the targets of a table: auto, number or class, one for all or one per target.", workload=True
    )
    categories: tuple[str, ...] = setting((), "Columns of a table that are categories: zip codes.", workload=True)
    dates: tuple[str, ...] = setting((), "Columns of a table that are dates.", workload=True)
    numbers: tuple[str, ...] = setting((), "Columns of a table that are numbers.", workload=True)
    ignore: tuple[str, ...] = setting((), "Columns of a table to leave out.", workload=True)
    split: int = setting(0, "Which random split of a table into training, validation and test rows.", workload=True)
    rescale: Mapping[str, float] = setting({}, "Multiply the loss of a task: depth=100. May be repeated.")
    prefer: Mapping[str, float] = setting({}, "How much a task matters, 1 for the others: depth=2. May be repeated.")
    epochs: int = setting(8, "Passes over the training data.")
    batch: int = setting(8, "Batch size, over all micro-batches and processes.")
    micro_batches: int = setting(1, "Micro-batches per step (gradient accumulation).")
    lr: float = setting(1e-3, "Peak learning rate of the model.")
    warmup: float = setting(0.1, "Share of the steps in which the learning rate rises; it then falls to zero.")
    weight_decay: float = setting(1e-6, "Weight decay of Adam.")
    clip: float = setting(0.0, "Largest gradient norm; 0 for no clipping.")
    dtype: str = setting("float32", "Floating-point type: float32 or float64.")
    memory_format: str = setting(
        "contiguous", "Order of filters and feature maps in memory: contiguous, or channels_last, often faster."
    )
    autocast: str = setting("none", "Mixed precision of the forward passes in training: none, bf16 or fp16.")
    evaluation: str = setting("auto", "How SIMS and FOOPS run two copies: auto, sequential (less memory) or joint.")
    select: str = setting(
        "last",
        "Which epoch is reported: last, where the rate has fallen to zero and all methods are equally trained, or best "
        "on the validation split.",
    )
    select_by: str = setting(
        "mean", "What `best` means: mean over tasks, so that no unit decides; a task; or a metric, `depth abs_err`."
    )
    patience: int = setting(0, "Stop after so many epochs without improvement on the validation split; 0 for never.")
    seed: int = setting(0, "Seed of the initial weights, the order of the data and the method.")
    start: str = setting("", "Folder of a finished run to go on from: its model, and the first losses of its tasks.")
    tag: str = setting("", "What tables call the run beside the name of its method, instead of its options.")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON and TOML hold them."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls: type[T], values: Mapping[str, Any]) -> T:
        """Return the config with these fields; a field that is not there has its default."""
        known = {entry.name: entry for entry in fields(cls)}
        hints = get_type_hints(cls)
        checked = {name: _checked(choose("setting", name, known), value, hints[name]) for name, value in values.items()}
        return cls(**checked)


@dataclass(frozen=True)
class Execution:
    """How runs are executed; none of it changes what they find, but the number of threads changes the rounding.

    Example:
        >>> Execution(workers=2).checkpoint_every
        0
    """

    checkpoint_every: int = setting(0, "Save a checkpoint after so many steps too, not only after epochs.", minimum=0)
    monitor: int = setting(0, "Measure the gradients of all tasks every so many steps; 0 for never.", minimum=0)
    workers: int = setting(0, "Processes per run that load data.", minimum=0)
    threads: int = setting(0, "Threads per run; 0 for all cores, or one in a comparison.", minimum=0)
    jobs: int = setting(0, "Runs at a time in a comparison; 0 for as many as there are cores.", minimum=0)
    processes: int = setting(1, "Processes per run, each with a part of every batch.", minimum=1)
    on: str = setting("local", "Where the runs of a comparison run: local, ray or slurm, with options: ray:gpus=1.")

    @property
    def cores(self) -> int:
        """Cores of a run in a comparison: the threads of all its processes."""
        return max(1, self.threads) * self.processes


@dataclass(frozen=True)
class ComparisonConfig:
    """What a comparison compares.

    Example:
        >>> ComparisonConfig(seeds=3).methods
        ('ew', 'gls', 'stch', 'foops', 'sims')
    """

    methods: tuple[str, ...] = setting(
        ("ew", "gls", "stch", "foops", "sims"), "Methods, separated by commas, with options: ew,sims:tau=1."
    )
    seeds: int = setting(1, "Number of seeds.")
    splits: int = setting(1, "Number of random splits of a table; every seed is trained on each.")
    tune: int = setting(0, "Trials that tune every method first; the table has both. 0 for none.", minimum=0)
    baseline: str = setting("ew", "The one of the methods that Delta_b is relative to.")


@dataclass(frozen=True)
class FrontConfig:
    """Which models along a Pareto front are trained, and which of them is chosen.

    Example:
        >>> FrontConfig(points=3).choose
        'balanced'
    """

    method: str = setting("sims:tau=0.3", "Method that takes a preference: sims, logmerit, gls, stch, pbi, or fixed.")
    points: int = setting(5, "Number of models; of three or more tasks the largest grid with at most so many.")
    spread: float = setting(16.0, "Largest preference over the smallest.")
    warm_epochs: int = setting(
        0, "Epochs of a model that starts from the one before; 0: all models start anew.", minimum=0
    )
    choose: str = setting("balanced", "The model to predict with: balanced, or the number of a point.")


@dataclass(frozen=True)
class TuningConfig:
    """How settings are tuned.

    Example:
        >>> TuningConfig(trials=5).search
        ('lr', 'method')
    """

    trials: int = setting(20, "Runs that are tried, failed and pruned ones included.", minimum=1)
    search: tuple[str, ...] = setting(
        ("lr", "method"), "What is tuned: lr, method (its options that are not given), model (likewise)."
    )
    sampler: str = setting("tpe", "How the next values are chosen: tpe or random.")
    pruner: str = setting("none", "Which trials end early: none, median or halving.")
    storage: str = setting("", "URL of a database, or a journal file, that processes share; a file in the folder.")


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML or JSON file, by name; those that it leaves out are not there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_config(RunConfig(epochs=3), Path(folder) / "run.toml")
        ...     read_config(Path(folder) / "run.toml")["epochs"]
        3
    """
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"Config file `{path}` cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"Config file `{path}` should be TOML or, ending in .json, JSON. Found: {error}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"Config file `{path}` should hold settings by name. Found {values!r:.40}.")  # noqa: TRY004
    RunConfig.from_dict(values)
    return values


def write_config(config: RunConfig, path: Path) -> None:
    """Write all settings as TOML, or as JSON if the name of the file ends in ``.json``.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_config(RunConfig(), Path(folder) / "run.json")
        ...     read_config(Path(folder) / "run.json")["data"]
        'scenes'
    """
    path.write_text(config_text(config, path.suffix), encoding="utf-8")


def config_text(config: RunConfig, suffix: str = ".toml") -> str:
    """Return the text of a config file."""
    if suffix == ".json":
        return json.dumps(config.to_dict(), indent=1) + "\n"
    import tomli_w

    return tomli_w.dumps(config.to_dict())


def default_of(entry: "Field[Any]") -> Any:
    """Return the default of a field."""
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def value_text(value: Any) -> str:
    """Return the value of a setting as a command line has it."""
    if isinstance(value, tuple):
        inner = "; " if value and isinstance(value[0], tuple) else ","
        return inner.join(map(value_text, value))
    return "" if isinstance(value, Mapping) else option_text(value)


def command_line(words: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that repeats a command.

    Example:
        >>> command_line(["torchsims", "compare"], {"seeds": 3, "methods": ("ew", "sims"), "rescale": {"depth": 100.0}})
        ['torchsims', 'compare', '--seeds', '3', '--methods', 'ew,sims', '--rescale', 'depth=100']
    """
    line = list(words)
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, Mapping):
            for task, factor in value.items():
                line += [flag, f"{quote_name(task)}={option_text(factor)}"]
        elif isinstance(value, bool):
            line.append(flag if value else f"--no-{flag.removeprefix('--')}")
        elif isinstance(value, tuple) and name in NAMES:
            line += [flag, ",".join(map(quote_name, value))]
        else:
            line += [flag, value_text(value) if isinstance(value, tuple | float) else str(value)]
    return line


def quote_name(task: str) -> str:
    """Return the name of a task as the command line takes it."""
    return task if split_list(task) == (task,) and '"' not in task else '"' + task.replace('"', '""') + '"'


def _checked(name: str, value: Any, hint: Any) -> Any:
    """Return a value read from a file as the type of its field, or raise an error that names both."""
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (int, float, str):
        if isinstance(value, hint) and not isinstance(value, bool):
            return value
        noun = {int: "a whole number", float: "a number", str: "a text"}[hint]
    elif hint == tuple[str, ...]:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return tuple(value)
        noun = "a list of texts"
    else:
        numbers = isinstance(value, Mapping) and all(
            isinstance(factor, int | float) and not isinstance(factor, bool) for factor in value.values()
        )
        if numbers:
            return {str(key): float(factor) for key, factor in value.items()}
        noun = "a table of numbers"
    raise ValueError(f"Setting `{name}` should be {noun}. Found `{name} = {value!r}`.")
