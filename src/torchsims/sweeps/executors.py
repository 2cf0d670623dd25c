"""Where runs run: on this machine, through Ray or Slurm, or wherever a class of your own starts them.

A run is the same everywhere: a configuration, a folder on storage that all machines share, and what
``torchsims train --config FOLDER/config.toml --resume --out FOLDER`` does with them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from torchsims.registry import Registry, Spec, convert_options, option_defaults
from torchsims.sweeps._cells import RunCell
from torchsims.training import Execution

__all__ = ["EXECUTORS", "Executor", "make_executor"]


class Executor(ABC):
    """Runs cells; a subclass is made with options of the command line, the arguments of its constructor.

    Example:
        >>> from torchsims.sweeps import make_executor
        >>> type(make_executor("local")).__name__
        'Local'
    """

    def check(self) -> None:  # noqa: B027  # most have nothing to check
        """Raise an error if runs cannot be started from here; called before anything is."""

    @abstractmethod
    def work(
        self,
        cells: Iterable[RunCell],
        most: int,
        out: Path,
        execution: Execution,
        refresh: Callable[[], None],
    ) -> None:
        """Run cells until there are none left; a run that fails does not stop the others.

        After Ctrl-C or SIGTERM, once every run has saved its state, it raises
        :class:`~torchsims.training.StoppedError`.

        Args:
            cells: the runs, in their order; the next one is taken when there is room for it.
            most: how many there are at most.
            out: folder of the command, above those of its runs.
            execution: how a run is executed.
            refresh: called when the status of a cell has changed.
        """

    def describe(self, cells: Sequence[RunCell], out: Path, execution: Execution) -> str:
        """Return what ``--dry-run`` prints: what would be started."""
        return f"{len(cells)} runs."


EXECUTORS = Registry(
    "executor",
    "torchsims.executors",
    lambda: {
        "local": "torchsims.sweeps.local:Local",
        "ray": "torchsims.sweeps.ray:Ray",
        "slurm": "torchsims.sweeps.slurm:Slurm",
    },
)
"""The registry of executors; other packages add theirs with the entry-point group ``torchsims.executors``."""


def make_executor(text: str) -> Executor:
    """Return the executor that a text names, with options: ``slurm:gpus=1``.

    Example:
        >>> make_executor("cloud")
        Traceback (most recent call last):
        ValueError: There is no executor `cloud`. The names are local, ray, slurm.
    """
    spec = Spec.parse(text)
    kind = EXECUTORS.load(spec.name)
    if not (isinstance(kind, type) and issubclass(kind, Executor)):
        raise ValueError(f"Executor `{spec.name}` should be a subclass of torchsims.sweeps.Executor.")  # noqa: TRY004
    made: Executor = kind(**convert_options(f"executor `{spec.name}`", spec.options, option_defaults(kind)))
    return made
