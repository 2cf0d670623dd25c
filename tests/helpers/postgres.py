"""A PostgreSQL server of its own: started in a new folder, stopped and deleted afterwards."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "open-sesame"  # of a server that nobody else can reach
USER = "nobody" if os.geteuid() == 0 else None  # the server does not run as root


def find_binaries() -> Path | None:
    """Return the folder of `initdb` and `pg_ctl`, which Debian does not put into the path; None if there is none."""
    found = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found is None and not debian:
        return None
    return Path(found).resolve().parent if found else debian[-1].parent


@contextmanager
def postgres_server(binaries: Path) -> Iterator[str]:
    """Start a server that listens on a socket in a private folder, and yield the URL of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a short name: a socket has at most 107 characters
    data, password = folder / "data", folder / "password"
    password.write_text(PASSWORD)
    if USER is not None:
        for path in (folder, password):
            shutil.chown(path, USER)
    server = ["-o", f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off", "-l", folder / "log"]
    login = ["--username=ann", f"--pwfile={password}", "--auth=scram-sha-256"]
    try:
        _run(binaries / "initdb", "-D", data, *login, "--no-sync", "--encoding=UTF8", "--locale=C")
        _run(binaries / "pg_ctl", "-D", data, "-w", *server, "start")
        try:
            yield f"postgresql+psycopg://ann:{PASSWORD}@/postgres?host={folder}"
        finally:
            _run(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _run(*words: object) -> None:
    subprocess.run(
        list(map(str, words)), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, user=USER, cwd="/"
    )
