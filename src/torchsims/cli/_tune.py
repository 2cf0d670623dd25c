"""The command that tunes one method, and what `compare --tune` does before it compares."""

import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

import typer

from torchsims.cli._inputs import bad_input, prepare_output_dir, warn
from torchsims.cli._options import add_options, given_values
from torchsims.cli._train import ConfigFile, Out, Resume, base_config, start_workers, stopped
from torchsims.training.config import ComparisonConfig, Execution, RunConfig, TuningConfig, command_line, config_text

if TYPE_CHECKING:  # torch is imported by the commands that need it
    from torchsims.sweeps import Comparison, Tuned

TRIALS, BEST = "trials", "best.toml"


def _tune(config: ConfigFile = None, out: Out = None, resume: Resume = False, *, given: dict[str, Any]) -> None:
    """Tune the learning rate and the options of a method on the validation split, with Optuna."""
    tuning = TuningConfig(**given_values(given, TuningConfig))
    start_workers(given, tuning.trials)
    from torchsims.reporting import Report, markdown, trials_figure, write_report
    from torchsims.sweeps import make_executor, without_password
    from torchsims.training.checkpoints import CHECKPOINT, lock_folder, replace_file

    with bad_input():
        base = base_config(given, config)
        check_tuning(base, tuning)
        if tuning.pruner != "none" and given.get("processes", 1) > 1:
            raise ValueError("Trials of several processes each cannot be pruned: give --pruner or --processes.")
        make_executor(given.get("on", "local")).check()
    out = out or Path("runs") / "tune"
    prepare_output_dir(out, resume=resume, mark=TRIALS, other=CHECKPOINT)
    shown = {**given, "storage": without_password(tuning.storage)} if "storage" in given else given
    words = ["torchsims", "tune", *(["--config", str(config)] if config else [])]
    command = join(command_line(words, {k: v for k, v in shown.items() if k not in Execution.__dataclass_fields__}))
    begin = time.perf_counter()
    again = join([*command_line(words, shown), "--resume", "--out", str(out)])
    tuned = run_tuning(base, tuning, out, given, again)
    with lock_folder(out):  # another process of the study may end now, too
        replace_file(out / BEST, config_text(replace(tuned.config, tag="")).encode())
    report = Report(
        title=f"Tuning of {base.method}",
        command=command,
        settings={**base.to_dict(), **asdict(tuning), "storage": without_password(tuning.storage)},
        rows=tuned.rows,
        figures={"trials": trials_figure(tuned.rows)},
        notes=[
            f"The best of {len(tuned.rows)} trials has the score {tuned.score:.4g} on the validation split: the lower, "
            f"the better. Its settings are in {BEST}; the test split was not looked at."
        ],
        downloads=[BEST],
    )
    write_report(report, out, time.perf_counter() - begin, into=True)
    typer.echo(markdown(report.rows))
    typer.echo(f"Best: torchsims train --config {join([str(out / BEST)])}")
    typer.echo(f"Page: {out / 'report.html'}")


def tune_first(
    comparison: "Comparison", chosen: ComparisonConfig, out: Path, given: dict[str, Any], words: list[str], resume: bool
) -> "Comparison":
    """Tune every method of a comparison with the same number of trials, and return it with the tuned ones as well."""
    from torchsims.sweeps import folder_name, with_tuned
    from torchsims.training.checkpoints import CHECKPOINT

    tuning = TuningConfig(trials=chosen.tune)
    defaults = [config for config in comparison.configs if config.seed == 0]
    with bad_input():
        for config in defaults:
            check_tuning(config, tuning)
    prepare_output_dir(out, resume=resume, mark="runs", other=CHECKPOINT)
    (out / "runs").mkdir(exist_ok=True)
    command = join([*command_line(words, given), "--resume", "--out", str(out)])
    found = [run_tuning(config, tuning, out / "tuning" / folder_name(config), given, command) for config in defaults]
    return with_tuned(comparison, found, chosen.seeds, chosen.tune)


def check_tuning(base: RunConfig, tuning: TuningConfig) -> None:
    """Raise the error that a tuning would end with."""
    from torchsims.registry import choose
    from torchsims.sweeps import search_space
    from torchsims.sweeps.tuning import PARTS, PRUNERS, SAMPLERS
    from torchsims.training import resolve
    from torchsims.training.world import processes

    if processes() > 1:
        raise ValueError("Tuning runs whole trials side by side: start it without torchrun, and with --jobs.")
    for name in tuning.search:
        choose("part to search", name, PARTS)
    choose("sampler", tuning.sampler, SAMPLERS)
    choose("pruner", tuning.pruner, PRUNERS)
    search_space(base, tuning.search)
    resolved = resolve(replace(base, method="ew"))
    if not resolved.workload.items("val"):
        raise ValueError("Tuning needs a validation split. Found none.")
    resolved.check_batches()


def run_tuning(base: RunConfig, tuning: TuningConfig, out: Path, given: dict[str, Any], command: str) -> "Tuned":
    """Run the trials that are left; ``command`` is what resumes it."""
    from torchsims.reporting import live_table
    from torchsims.sweeps import tune as run_trials
    from torchsims.training import StoppedError
    from torchsims.training.world import first_process

    execution = Execution(**given_values(given, Execution))
    (out / TRIALS).mkdir(parents=True, exist_ok=True)
    try:
        with live_table() if first_process() else nullcontext(lambda runs: None) as show, bad_input():
            return run_trials(base, tuning, out, execution, show=show, warn=warn)
    except (StoppedError, KeyboardInterrupt):
        stopped(command)
    except (RuntimeError, OSError) as error:
        raise typer.TyperException(f"{error} Finished trials are in {out}.") from error


tune = add_options(_tune, RunConfig, TuningConfig, Execution, without=("tag",))
