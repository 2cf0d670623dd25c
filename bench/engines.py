"""What the engines of a comparison cost beside the training: many tiny runs, by each executor.

    python bench/engines.py [local] [ray] [slurm] [--runs 200] [--rows 400] [--epochs 4]

Prints one line per executor, over the whole command, the start of Python and the table of the comparison included.
Training is the share of the time of all cores in which a run was trained, from its data to its page; overhead is the
rest, per run. Used is the processor time (user and system) of all processes of the command, over the time of all cores.
Busy is the share in which a core did anything, by any process: on a machine that does nothing else, both are alike,
but for Ray, whose processes hide theirs. Linux only.
"""

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUBREAPER = 36  # of prctl: this process waits for processes whose parents are gone
EXECUTORS = {"local": "local", "ray": "ray", "slurm": "slurm:minutes=10"}


def write_rows(path: Path, rows: int) -> None:
    """Write a table of two targets that follow from two columns."""
    lines = [f"{i % 7},{i % 11},{i % 7 + i % 11},{(i % 7) * (i % 11)}" for i in range(rows)]
    path.write_text("\n".join(["a,b,sum,product", *lines]))


def measure(executor: str, folder: Path, table: Path, runs: int, epochs: int) -> str:
    """Compare one method with many seeds, and return how long it took and how much of it was training."""
    words = [sys.executable, "-m", "torchsims", "compare", "--csv", str(table), "--targets", "sum,product"]
    words += ["--methods", "ew", "--seeds", str(runs), "--epochs", str(epochs), "--on", EXECUTORS[executor]]
    begin, busy, used = time.perf_counter(), busy_seconds(), used_seconds()
    subprocess.run([*words, "--out", str(folder)], check=True, capture_output=True)
    seconds, busy, used = time.perf_counter() - begin, busy_seconds() - busy, used_seconds() - used
    finished = [json.loads(path.read_text()) for path in folder.glob("runs/*/results.json")]
    trained = sum(run["seconds"] for run in finished)
    cores = os.cpu_count() or 1
    overhead, whole = (cores * seconds - trained) / runs, cores * seconds
    return (
        f"{executor:8}{len(finished)} runs in {seconds:6.1f} s, {trained / runs:.2f} s each; "
        f"cores used {used / whole:.0%}, busy {busy / whole:.0%}, training {trained / whole:.0%}, "
        f"overhead {overhead:.2f} s per run"
    )


def busy_seconds() -> float:
    """Return the seconds in which cores were busy since the machine started, summed over them."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def used_seconds() -> float:
    """Return the processor time of all processes that this one has started, and of theirs, once they have ended."""
    try:
        while True:
            os.wait()  # for those that their parents have left behind
    except ChildProcessError:
        found = resource.getrusage(resource.RUSAGE_CHILDREN)
        return found.ru_utime + found.ru_stime


def main() -> None:
    """Measure and print."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("executors", nargs="*", choices=[*EXECUTORS, []], default=["local", "ray"])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        table = Path(home) / "rows.csv"
        write_rows(table, given.rows)
        for executor in given.executors:
            print(measure(executor, Path(home) / executor, table, given.runs, given.epochs), flush=True)


if __name__ == "__main__":
    main()
