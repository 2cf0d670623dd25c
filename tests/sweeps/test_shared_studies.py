"""Studies that two processes share, in a journal file, in SQLite and on a PostgreSQL server."""

import os
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy.exc import OperationalError

from helpers.commands import Call, results
from helpers.postgres import PASSWORD, find_binaries, postgres_server
from helpers.training_cases import DATA
from torchsims.sweeps import tune, without_password
from torchsims.sweeps._studies import StudyPlace
from torchsims.sweeps.tuning import study_name
from torchsims.training import Execution, TuningConfig, complete_config

FORK = get_context("fork")  # of this process, which has imported all
QUICK = {"data": DATA, "model": "hps:width=8", "epochs": 1, "batch": 4, "method": "ew"}


@pytest.fixture(scope="module", autouse=True)
def imports(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("first")
    work(f"sqlite:///{folder / 'study.db'}", 1, folder)  # what a trial imports late, its forks need not


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    binaries = find_binaries()
    if binaries is None:
        assert not os.environ.get("TORCHSIMS_CI"), "Continuous integration should have PostgreSQL. Found none."
        pytest.skip("PostgreSQL is not installed.")
    with postgres_server(binaries) as url:
        yield url


@pytest.fixture(params=["journal", "sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        url: str = request.getfixturevalue("server")
        return url
    return f"sqlite:///{tmp_path / 'study.db'}" if request.param == "sqlite" else str(tmp_path / "study.journal")


def stored_trials(url: str) -> list[optuna.trial.FrozenTrial]:
    rdb = RDBStorage(url) if "://" in url else None
    storage = rdb or JournalStorage(JournalFileBackend(url))
    name = study_name(complete_config(QUICK), TuningConfig(search=("lr",)))
    trials = optuna.load_study(study_name=name, storage=storage).trials
    if rdb is not None:
        rdb.engine.dispose()
    return trials


def work(storage: str, trials: int, out: Path) -> None:
    tuning = TuningConfig(trials=trials, search=("lr",), storage=storage)
    tune(complete_config(QUICK), tuning, out, Execution(jobs=1))


def test_two_processes_share_a_study_and_its_budget(storage: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for trials, processes in ((3, 2), (4, 2), (4, 1)):  # a new study, one that goes on, and one that is finished
        running = [FORK.Process(target=work, args=(storage, trials, out)) for _ in range(processes)]
        for process in running:
            process.start()
        for process in running:
            process.join(120)
        assert [process.exitcode for process in running] == [0] * processes
        found = [trial for trial in stored_trials(storage) if trial.state is not TrialState.FAIL]
        assert [trial.state for trial in found] == [TrialState.COMPLETE] * trials
        assert len({trial.user_attrs["values"]["lr"] for trial in found}) == trials
        assert len(list(out.rglob("checkpoint.pt"))) == trials  # nothing is trained twice


def test_a_database_that_another_process_has_just_made_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, calls = RDBStorage.__init__, iter(range(100))

    def too_late(self: RDBStorage, *args: Any) -> None:
        if next(calls) == 0:
            raise OperationalError("CREATE TABLE studies", {}, Exception("table studies already exists"))
        begin(self, *args)

    monkeypatch.setattr(RDBStorage, "__init__", too_late)
    assert StudyPlace(f"sqlite:///{tmp_path / 'study.db'}", "study").open("none").trials == []


def test_the_command_on_a_server_shows_no_password(server: str, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [word for name, value in QUICK.items() for word in (f"--{name}", value)]
    assert call("tune", *words, "--seed", 1, "--trials", 2, "--jobs", 1, "--storage", server, "--out", out) == 0
    assert results(out)["settings"]["storage"] == without_password(server)
    texts = [path for path in out.rglob("*") if path.suffix in (".json", ".html", ".md", ".toml")]
    assert len(texts) > 3
    assert [path for path in texts if PASSWORD in path.read_text()] == []


def test_a_database_that_is_not_there_is_one_sentence_without_a_password(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchsims.sweeps._studies.WAITS", ())
    words = [word for name, value in QUICK.items() for word in (f"--{name}", value)]
    url = f"postgresql+psycopg://ann:{PASSWORD}@/postgres?host={tmp_path}"
    assert call("tune", *words, "--storage", url, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert f"Storage `postgresql+psycopg://ann:***@/postgres?host={tmp_path}` cannot be opened" in error
    assert PASSWORD not in error
