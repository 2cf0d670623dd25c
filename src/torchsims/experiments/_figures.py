"""The figures of training runs."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from torchsims.reporting import Run, predictions, training_curves, validation_curves, weight_curves

__all__ = ["run_figures"]


def run_figures(runs: Sequence[Run]) -> tuple[dict[str, Figure], dict[str, str]]:
    """Return the figures that every page of runs has, by name, and their captions."""
    figures: dict[str, Figure] = {}
    captions: dict[str, str] = {}

    def add(name: str, figure: Figure, caption: str) -> None:
        figures[name], captions[name] = figure, caption

    if any(_has_pictures(run.samples) for run in runs):
        add("predictions", predictions(runs), "An image of the test split: the truth, then what each method predicts.")
    add("training", training_curves(runs), "Mean training loss of every epoch, in the units of the data.")
    if any(run.history["validation"] for run in runs):
        add("validation", validation_curves(runs), "Metrics of the validation split after every epoch.")
    add("weights", weight_curves(runs), "Mean weight of every task in every epoch.")
    return figures, captions


def _has_pictures(samples: Mapping[str, object] | None) -> bool:
    return bool(samples) and "image" in (samples or {})
