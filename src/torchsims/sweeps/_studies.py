"""Where a study of Optuna is kept, how it chooses trials, and what is done about trials whose process is gone."""

import os
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, final

import numpy as np

from torchsims._extras import needs
from torchsims.registry import choose
from torchsims.sweeps._cells import PrunedError
from torchsims.training import Callback, Metrics
from torchsims.training.selection import validation_score

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial, Trial

SAMPLERS = ("tpe", "random")
PRUNERS = ("none", "median", "halving")
WAITS = (0.1, 0.3, 1.0, 2.0)  # seconds, while another process makes the tables of a new database
GRACE = timedelta(minutes=2)  # in which a process of another machine has begun to train what it asked for


@final
@dataclass(frozen=True)
class StudyPlace:
    """The storage of a study, a URL or the path of a journal file, and its name there.

    Example:
        >>> StudyPlace("sqlite:///studies.db", "sims").name
        'sims'
    """

    storage: str
    name: str

    def open(self, pruner: str) -> "Study":
        """Return the study, a new one if there is none."""
        with needs("sweeps"):
            import optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruners: dict[str, Callable[[], Any]] = {
            "none": optuna.pruners.NopPruner,
            "median": optuna.pruners.MedianPruner,
            "halving": optuna.pruners.SuccessiveHalvingPruner,
        }
        return optuna.create_study(
            storage=self._storage(),
            pruner=pruners[choose("pruner", pruner, PRUNERS)](),
            study_name=self.name,
            direction="minimize",
            load_if_exists=True,
        )

    def take_over(self, study: "Study", is_running: Callable[["FrozenTrial"], bool]) -> "list[Trial]":
        """Return the trials whose process is gone, to be continued from their checkpoints; they are now this one's."""
        from optuna.trial import Trial, TrialState

        lost = [t for t in study.get_trials(states=(TrialState.RUNNING,)) if _is_lost(t, is_running)]
        found = [Trial(study, trial._trial_id) for trial in lost]  # as Optuna's own integrations do
        for trial in found:
            trial.set_user_attr("owner", owner())
        return found

    def note_failure(self, study: "Study", number: int, sentence: str) -> None:
        """Keep why the run of a trial failed, with the trial."""
        import optuna

        optuna.trial.Trial(study, _trial_id(study, number)).set_user_attr("failure", sentence)

    def _storage(self) -> "BaseStorage":
        import optuna
        from optuna.storages.journal import JournalFileBackend

        if "://" not in self.storage:
            return optuna.storages.JournalStorage(JournalFileBackend(self.storage))
        shown = without_password(self.storage)
        try:
            return _open_database(self.storage)
        except ImportError as error:
            raise ValueError(f"Storage `{shown}` needs the driver of its database: {error}.") from error
        except Exception as error:  # what a database raises depends on the database
            raise ValueError(f"Storage `{shown}` cannot be opened: {error}") from error


def _open_database(url: str) -> "BaseStorage":
    """Return a database; where processes open a new one at the same time, all but the first fail to make its tables.

    No connection is kept: a server would close it while a trial runs for hours.
    """
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.pool import NullPool

    options = {"poolclass": NullPool}
    for wait in WAITS:
        try:
            return RDBStorage(url, options)
        except DBAPIError:
            time.sleep(wait)
    return RDBStorage(url, options)


def make_sampler(name: str, seed: int, position: int) -> "BaseSampler":
    """Return what chooses the values of one trial: a function of what is known and of its position in the study.

    So a study that is continued, or that several processes share, never draws the same numbers twice.
    """
    from optuna.samplers import RandomSampler, TPESampler

    (state,) = np.random.SeedSequence((seed, position)).generate_state(1)
    choose("sampler", name, SAMPLERS)
    return TPESampler(seed=int(state)) if name == "tpe" else RandomSampler(seed=int(state))


@final
class Pruning(Callback):
    """Tells a study how a trial is doing after every epoch, and ends the run where others were ahead.

    It is sent to the process of the run, and opens the study there.
    """

    def __init__(
        self, place: StudyPlace, pruner: str, number: int, higher: Mapping[str, Mapping[str, bool]], by: str
    ) -> None:
        self._place, self._pruner, self._number, self._higher, self._by = place, pruner, number, higher, by
        self._trial: Any = None

    def on_epoch(self, step: int, metrics: Metrics) -> None:
        import optuna

        if self._trial is None:
            study = self._place.open(self._pruner)
            self._trial = optuna.trial.Trial(study, _trial_id(study, self._number))
        self._trial.report(validation_score(metrics, self._higher, self._by), step)
        if self._trial.should_prune():
            raise PrunedError


def owner() -> str:
    """Return a name for this process, wherever the study is read."""
    return f"{socket.gethostname()}:{os.getpid()}"


def _is_lost(trial: "FrozenTrial", is_running: Callable[["FrozenTrial"], bool]) -> bool:
    """Return whether the process that asked for a trial is gone, as far as this one can tell."""
    host, _, process = str(trial.user_attrs.get("owner", "")).rpartition(":")
    if host != socket.gethostname():
        late = trial.datetime_start is None or datetime.now() - trial.datetime_start > GRACE
        return late and not ("values" in trial.user_attrs and is_running(trial))
    if int(process) == os.getpid():
        return True  # a number that was used before
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _trial_id(study: "Study", number: int) -> int:
    found: int = study.get_trials(deepcopy=False)[number]._trial_id  # as Optuna's own integrations do
    return found


def without_password(url: str) -> str:
    """Return the URL of a database as it may be shown.

    Example:
        >>> without_password("postgresql://ann:secret@db.example.org/studies")
        'postgresql://ann:***@db.example.org/studies'
    """
    return re.sub(r"(://[^:/]*:)[^@]*(?=@)|([?&]password=)[^&]*", r"\1\2***", url)
