"""`torchsims front`: models along the Pareto front, by preference."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchsims.cli._inputs import bad_input
from torchsims.cli._options import add_options, given_values
from torchsims.cli._train import ConfigFile, DryRun, Out, Resume, base_config, run_comparison_command, start_workers
from torchsims.training.config import Execution, FrontConfig, RunConfig

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.reporting import Report


def _front(
    config: ConfigFile = None,
    out: Out = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    *,
    given: dict[str, Any],
) -> None:
    """Train models along the Pareto front, by preference; write their table, figure and page, and choose one."""
    if not dry_run:
        start_workers(given)
    with bad_input():
        from torchsims.fronts import choice_text, front_comparison
    from torchsims.training import resolve
    from torchsims.training.checkpoints import replace_file
    from torchsims.training.predict import CHOSEN

    chosen, folder = FrontConfig(**given_values(given, FrontConfig)), out or Path("runs") / "front"
    with bad_input():
        base = base_config(given, config, method=chosen.method)
        tasks = resolve(replace(base, method="ew", prefer={})).workload.tasks  # points have methods of their own
        comparison = front_comparison(base, chosen, tasks, folder)

    def choose(report: "Report") -> None:
        replace_file(folder / CHOSEN, f"{choice_text(report, comparison.configs)}\n".encode())

    words = ["torchsims", "front", *(["--config", str(config)] if config else [])]
    run_comparison_command(comparison, folder, given, words, resume=resume, dry_run=dry_run, finish=choose)


front = add_options(_front, RunConfig, FrontConfig, Execution, without=("prefer", "start"))
