"""All runs of a comparison: those that are finished are read, the others are given to an executor."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torchsims.reporting import RunState, RunStatus, ShowStatus
from torchsims.sweeps._cells import RunCell
from torchsims.sweeps.executors import make_executor
from torchsims.sweeps.folders import folder_name, read_run
from torchsims.training import Execution, Resolved, Run
from torchsims.training.checkpoints import load_checkpoint


def run_all(
    resolved: Sequence[Resolved],
    out: Path,
    execution: Execution,
    show: ShowStatus,
    warn: Callable[[str], None] = lambda sentence: None,
) -> list[RunCell]:
    """Run everything that is not finished yet, each in a folder in ``out / "runs"``.

    A run that fails does not stop the others. After Ctrl-C, once all runs have saved their state, it raises
    :class:`~torchsims.training.StoppedError`.
    """
    cells = make_cells(resolved, out, warn)
    open_cells = [cell for cell in cells if cell.run is None]

    def refresh() -> None:
        show([cell.status for cell in cells])

    refresh()
    make_executor(execution.on).work(open_cells, len(open_cells), out, execution, refresh)
    return cells


def make_cells(
    resolved: Sequence[Resolved], out: Path, warn: Callable[[str], None] = lambda sentence: None
) -> list[RunCell]:
    """Return the cells of runs, with what those that are finished found."""
    cells = []
    several = len({each.config.split for each in resolved}) > 1
    for each in resolved:
        folder = out / "runs" / folder_name(each.config)
        run = read_finished(folder, each)
        state = RunState.WAITING if run is None else RunState.DONE_BEFORE
        status = RunStatus(each.label, each.config.seed, state, split=each.config.split if several else None)
        cells.append(RunCell(each, folder, warn, status, run))
    return cells


def check_cells(resolved: Sequence[Resolved], out: Path) -> None:
    """Raise an error if other runs, damaged ones, or runs on other data are in the folders of these.

    Example:
        >>> check_cells([], Path("runs"))
    """
    for each in resolved:
        folder = out / "runs" / folder_name(each.config)
        read_finished(folder, each)
        load_checkpoint(folder, each.config)


def read_finished(folder: Path, resolved: Resolved) -> Run | None:
    """Return the finished run in a folder, or None; raise an error if its data are no longer what they were."""
    run = read_run(folder, resolved.config)
    if run is not None and run.fingerprint:
        now = resolved.workload.fingerprint()
        if now and now != run.fingerprint:
            raise ValueError(
                f"The data in `{resolved.config.root}` is not what the finished run in `{folder}` was trained on: "
                "restore it, or compare in a new folder."
            )
    return run
