"""The command line. Heavy imports wait until a command needs them, so that ``--help`` answers at once."""

import gc
import sys
from typing import Annotated

import typer

from torchsims import __version__
from torchsims.cli._diagnose import diagnose
from torchsims.cli._front import front
from torchsims.cli._inputs import bad_input
from torchsims.cli._models import models
from torchsims.cli._plan import plan
from torchsims.cli._reproduce import reproduce
from torchsims.cli._runs import export, predict, report
from torchsims.cli._train import compare, train
from torchsims.cli._tune import tune

__all__ = ["app", "main"]

app = typer.Typer(name="torchsims", add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def _torchsims(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Multi-task training that does not depend on the units of the losses."""
    if version:
        typer.echo(f"torchsims {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def methods(name: Annotated[str | None, typer.Argument(help="Only this one.")] = None) -> None:
    """List every method: its family, forward + backward passes per step, and its options with their defaults."""
    from torchsims.methods import catalogue
    from torchsims.registry import choose, normalize_name
    from torchsims.reporting import markdown

    rows = catalogue()
    if name is not None:
        with bad_input():
            choose("method", normalize_name(name), [row["method"] for row in rows])
        rows = [row for row in rows if row["method"] == normalize_name(name)]
    typer.echo(markdown(rows))
    typer.echo("\nOptions follow a name after colons: sims:tau=1:ratio=5, stch:normalize=yes, ew:normalizer=ema.")


for _command, _name in ((train, "train"), (compare, "compare"), (predict, "predict"), (report, "report")):
    app.command(_name)(_command)
app.command("diagnose")(diagnose)
app.command("export")(export)
app.command("front")(front)
app.command("models")(models)
app.command("plan")(plan)
app.command("tune")(tune)
app.add_typer(reproduce, name="reproduce")


def main() -> None:
    """Run the command line; bad input is one sentence and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        print(f"torchsims: {' '.join(error.format_message().split())}", file=sys.stderr)  # names may hold line breaks
        sys.exit(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        print("torchsims: stopped.", file=sys.stderr)
        sys.exit(130)
    finally:
        gc.freeze()  # else the end of Python looks at every object of torch once more, which takes a second
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
