"""Tuning on Optuna: the same number of trials for every method, scored on the validation split only.

A trial is an ordinary run in a folder of its own. Its configuration is what Optuna chose, and its folder is named by
the configuration: a trial that was interrupted is continued from its checkpoint, and nothing is trained twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from torchsims.methods import Method
from torchsims.models import Architecture
from torchsims.registry import Spec, option_text
from torchsims.reporting import Row, RunState, RunStatus, ShowStatus
from torchsims.spaces import Choice, Range, Space
from torchsims.sweeps._cells import Event, RunCell
from torchsims.sweeps._studies import PRUNERS, SAMPLERS, Pruning, StudyPlace, make_sampler, owner
from torchsims.sweeps.executors import make_executor
from torchsims.sweeps.folders import folder_name
from torchsims.sweeps.plans import Comparison
from torchsims.sweeps.running import read_finished
from torchsims.training import Execution, Resolved, Run, RunConfig, TuningConfig, resolve
from torchsims.training.checkpoints import is_locked
from torchsims.training.selection import validation_score
from torchsims.workloads import workload_class

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

__all__ = ["PARTS", "PRUNERS", "SAMPLERS", "Tuned", "search_space", "tune", "with_tuned"]

PARTS = ("lr", "method", "model")
AROUND_LR = 10.0  # learning rates are tried from a tenth of the given one to ten times it
DIGITS = 3  # of a number that is tried: more decide nothing, and make names of folders long


@dataclass(frozen=True, eq=False)
class Tuned:
    """What a study found: the best configuration, its score on the validation split, and a row per trial.

    Example:
        >>> Tuned(RunConfig(method="sims:tau=1"), -1.5, ()).config.method
        'sims:tau=1'
    """

    config: RunConfig
    score: float
    rows: Sequence[Row]


def search_space(config: RunConfig, search: Sequence[str]) -> dict[str, Space]:
    """Return what is tried: ``lr``, options of the method and of the model that the configuration leaves open.

    Example:
        >>> sorted(search_space(RunConfig(method="sims:tau=1", model="hps"), ["lr", "method"]))
        ['lr', 'method.augment', 'method.ratio']
    """
    found: dict[str, Space] = {}
    if "lr" in search:
        found["lr"] = Range(config.lr / AROUND_LR, config.lr * AROUND_LR)
    if "method" in search:
        tasks = resolve(replace(config, method="ew")).workload.tasks
        found |= {f"method.{name}": space for name, space in Method(config.method).search_space(tasks).items()}
    if "model" in search:
        kind = Architecture.parse(config.model, workload_class(config.data).architectures)
        given = Spec.parse(config.model).options
        found |= {f"model.{name}": space for name, space in kind.search_space().items() if name not in given}
    if not found:
        raise ValueError(f"Method `{config.method}` and `search = {','.join(search)}` leave nothing to tune.")
    return found


def with_values(config: RunConfig, values: Mapping[str, Any]) -> RunConfig:
    """Return the configuration with values of a search space.

    Example:
        >>> with_values(RunConfig(method="sims"), {"lr": 0.01, "method.tau": 0.5}).method
        'sims:tau=0.5'
    """
    options: dict[str, dict[str, str]] = {"method": {}, "model": {}}
    for name, value in values.items():
        part, _, option = name.partition(".")
        if option:
            options[part][option] = option_text(value)
    texts = {}
    for part, given in options.items():
        spec = Spec.parse(getattr(config, part))
        texts[part] = str(Spec(spec.name, {**spec.options, **given}))
    method = str(Method(texts["method"]))
    return replace(config, lr=values.get("lr", config.lr), method=method, model=texts["model"])


def run_score(run: Run) -> float:
    """Return the score of a run on the validation split, lower for a better one: that of the epoch it selects."""
    epochs = run.history.epochs
    by_epoch = [
        {task: {name: curve[epoch] for name, curve in of.items()} for task, of in run.history.validation.items()}
        for epoch in range(epochs)
    ]
    scores = [validation_score(metrics, run.higher_is_better, run.config.select_by) for metrics in by_epoch]
    return min(scores) if run.config.select == "best" else scores[-1]


def tune(
    config: RunConfig,
    tuning: TuningConfig,
    out: Path,
    execution: Execution | None = None,
    *,
    show: ShowStatus = lambda runs: None,
    warn: Callable[[str], None] = lambda sentence: None,
) -> Tuned:
    """Run the trials of a study that are left, in ``out / "trials"``, and return what they found.

    The study is in the folder too unless ``tuning.storage`` names another place; processes on other machines that use
    the same one, and the same folder, share the work.

    Example:
        >>> import tempfile
        >>> from torchsims.training import complete_config
        >>> quick = {"data": "scenes:images=12:resolution=32", "model": "hps:width=8", "epochs": 1, "batch": 4}
        >>> with tempfile.TemporaryDirectory() as out:
        ...     how = TuningConfig(trials=2, search=("lr",))
        ...     tuned = tune(complete_config({**quick, "method": "ew"}), how, Path(out), Execution(jobs=1))
        >>> len(tuned.rows)
        2
    """
    study = _Study(config, tuning, out, warn)
    cells = study.cells

    def refresh() -> None:
        show([cell.status for cell in cells])

    execution = execution or Execution()
    make_executor(execution.on).work(study.trials(), tuning.trials, out, execution, refresh)
    return study.result()


def with_tuned(comparison: Comparison, tuned: Sequence[Tuned], seeds: int, trials: int) -> Comparison:
    """Return a comparison with the tuned methods beside the others, and a table of what was chosen.

    Example:
        >>> plan = Comparison("Methods", (RunConfig(),), RunConfig(method="ew"))
        >>> [config.tag for config in with_tuned(plan, [Tuned(RunConfig(tag="tuned"), 0.0, ())], 1, 20).configs]
        ['', 'tuned']
    """
    splits = dict.fromkeys(config.split for config in comparison.configs)
    grid = product(splits, range(seeds), tuned)
    added = tuple(replace(each.config, split=split, seed=seed) for split, seed, each in grid)
    rows: list[Row] = [
        {"method": each.config.method, "lr": each.config.lr, "trials": len(each.rows), "validation score": each.score}
        for each in tuned
    ]
    note = (
        f"Tuned methods had {trials} trials of {comparison.configs[0].epochs} epochs each, for the learning rate and "
        "their options, scored on the validation split."
    )
    return replace(
        comparison,
        configs=(*comparison.configs, *added),
        notes=(*comparison.notes, note),
        tables=lambda of: {**comparison.tables(of), "Tuned": rows},
    )


@final
class _TrialCell(RunCell):
    """The run of a trial; the study is told how it ended."""

    finish: Callable[["_TrialCell"], None]

    def handle(self, event: Event | str) -> None:
        super().handle(event)
        if self.status.state.is_over and self.status.state is not RunState.STOPPED:  # which goes on later
            self.finish(self)


@final
class _Study:
    """A study of Optuna, and the runs of its trials."""

    def __init__(self, config: RunConfig, tuning: TuningConfig, out: Path, warn: Callable[[str], None]) -> None:
        self.config, self.tuning, self.out, self.warn = config, tuning, out, warn
        self.space = search_space(config, tuning.search)
        (out / "trials").mkdir(parents=True, exist_ok=True)
        self.place = StudyPlace(tuning.storage or str(out / "study.journal"), study_name(config, tuning))
        self.study = self.place.open(tuning.pruner)
        self.cells: list[RunCell] = []

    def trials(self) -> Iterator[RunCell]:
        """Ask for one trial after the other, and yield the runs of those that are not finished in their folders."""
        lost = self.place.take_over(self.study, self._is_running)
        for trial in chain(lost, iter(self._ask, None)):
            self._choose(trial)
            cell = self._cell(trial)
            self.cells.append(cell)
            if cell.run is None:
                yield cell
            else:
                self._finish(cell, trial.number)

    def result(self) -> Tuned:
        """Return the best trial; an error if there is none."""
        from optuna.trial import TrialState

        finished = [t for t in self.study.get_trials() if t.state in (TrialState.COMPLETE, TrialState.PRUNED)]
        best = min((t for t in finished if t.state is TrialState.COMPLETE), key=lambda t: t.value or 0.0, default=None)
        if best is None or best.value == inf:
            raise RuntimeError(f"No trial of {self.config.method} was finished. {self._failures(finished)}".strip())
        chosen = with_values(self.config, best.user_attrs["values"])
        return Tuned(replace(chosen, tag="tuned"), best.value or 0.0, [_row(trial) for trial in finished])

    def _ask(self) -> "Trial | None":
        """Return the next trial; None if there are as many as there should be."""
        from optuna.trial import TrialState

        if self._count() >= self.tuning.trials:
            return None
        trial = self.study.ask()
        trial.set_user_attr("owner", owner())
        if self._count(trial.number) >= self.tuning.trials:  # another process was faster
            self.study.tell(trial, state=TrialState.FAIL)
            return None
        return trial

    def _count(self, before: int | None = None) -> int:
        """Return how many trials use the budget, of those before a number."""
        from optuna.trial import TrialState

        trials = self.study.get_trials(deepcopy=False)[:before]
        return sum(other.state not in (TrialState.FAIL, TrialState.WAITING) for other in trials)

    def _choose(self, trial: "Trial") -> None:
        """Choose the values of a trial, unless the process that began it has."""
        if "values" in trial.user_attrs:
            return
        self.study.sampler = make_sampler(self.tuning.sampler, self.config.seed, self._count(trial.number))
        values = {name: _suggest(trial, name, space) for name, space in self.space.items()}
        trial.set_user_attr("values", values)

    def _cell(self, trial: "Trial") -> RunCell:
        resolved = resolve(with_values(self.config, trial.user_attrs["values"]))
        folder = self.out / "trials" / _trial_folder(resolved)
        run = read_finished(folder, resolved)
        higher = {task: dict(metric.higher_is_better) for task, metric in resolved.workload.metrics().items()}
        state = RunState.WAITING if run is None else RunState.DONE_BEFORE
        status = RunStatus(f"{resolved.method.name}, trial {trial.number}", resolved.config.seed, state)
        pruning = Pruning(self.place, self.tuning.pruner, trial.number, higher, resolved.config.select_by)
        cell = _TrialCell(resolved, folder, self.warn, status, run, [pruning] if self.tuning.pruner != "none" else [])
        cell.finish = lambda cell: self._finish(cell, trial.number)
        return cell

    def _finish(self, cell: RunCell, number: int) -> None:
        from optuna.trial import TrialState

        if cell.status.state is RunState.PRUNED:
            self.study.tell(number, state=TrialState.PRUNED, skip_if_finished=True)
        elif cell.run is not None:
            self.study.tell(number, run_score(cell.run), skip_if_finished=True)
        else:  # it counts: a method whose runs fail has used its budget
            self.place.note_failure(self.study, number, cell.status.progress)
            self.study.tell(number, inf)

    def _is_running(self, trial: "FrozenTrial") -> bool:
        """Return whether some process trains a trial, here or on another machine."""
        resolved = resolve(with_values(self.config, trial.user_attrs["values"]))
        return is_locked(self.out / "trials" / _trial_folder(resolved))

    def _failures(self, finished: Sequence["FrozenTrial"]) -> str:
        return " ".join(dict.fromkeys(t.user_attrs["failure"] for t in finished if "failure" in t.user_attrs))


def study_name(config: RunConfig, tuning: TuningConfig) -> str:
    """Return the name of a study: everything that makes its trials comparable."""
    from hashlib import sha256

    same = repr((sorted(config.to_dict().items(), key=lambda pair: pair[0]), tuning.search, tuning.pruner))
    return f"{Spec.parse(config.method).name}-{sha256(same.encode()).hexdigest()[:12]}"


def _trial_folder(resolved: Resolved) -> str:
    return f"{folder_name(resolved.config)}_lr={resolved.config.lr:g}"


def _suggest(trial: "Trial", name: str, space: Space) -> bool | int | float | str:
    if isinstance(space, Choice):
        chosen = trial.suggest_categorical(name, space.values)
        assert chosen is not None
        return chosen
    return float(f"{trial.suggest_float(name, space.low, space.high, log=space.log):.{DIGITS}g}")


def _row(trial: "FrozenTrial") -> Row:
    state = "failed" if "failure" in trial.user_attrs else trial.state.name.lower()
    score = trial.value if trial.value not in (None, inf) else None
    return {"trial": trial.number, "state": state, "score": score, **trial.user_attrs["values"]}
