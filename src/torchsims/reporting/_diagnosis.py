"""The page of a diagnosis: advice, numbers by task, and heat maps of cosines."""

from collections.abc import Mapping, Sequence
from math import isnan

import numpy as np
from matplotlib.figure import Figure

from torchsims.diagnosis import Diagnosis
from torchsims.reporting._bars import heat_maps, share_bars
from torchsims.reporting._report import Report
from torchsims.reporting._style import shorten
from torchsims.reporting._tables import Row

HALF = 14  # letters of one name in the label of a pair
MOST_PAIRS = 15  # across a heat map of layer groups; six tasks have as many
CAPTIONS = {
    "shares": "What each task has to say in a sum of the losses and in a sum of their logarithms: its share in the "
    "lengths of all gradients by the shared parameters.",
    "cosines": "Mean cosine of the gradients of two tasks by the shared parameters: below zero they point against each "
    "other.",
    "cosines_by_layer": "The same by layer group, from the input at the bottom to the output at the top.",
}


def diagnosis_report(diagnosis: Diagnosis, title: str, command: str, settings: Mapping[str, object]) -> Report:
    """Return the report of a diagnosis; ``settings`` are those of the data and the model.

    Example:
        >>> import torch
        >>> import torchsims
        >>> model, batches = torch.nn.Linear(4, 2), [torch.randn(16, 4)]
        >>> found = torchsims.diagnose(model, lambda model, x: (model(x) - x[:, :2]).square().mean(0), batches)
        >>> sorted(diagnosis_report(found, "Mine", "mine.py", {}).figures)
        ['cosines', 'shares']
    """
    several = len(diagnosis.tasks) > 1 and diagnosis.shared > 0
    return Report(
        title=title,
        command=command,
        settings=settings,
        rows=[_without_nan(row) for row in diagnosis.rows()],
        details=_details(diagnosis),
        figures=_figures(diagnosis) if several else {},
        captions=CAPTIONS,
        notes=[*diagnosis.advice, _extent(diagnosis)],
        diagnosis=diagnosis,
    )


def _extent(diagnosis: Diagnosis) -> str:
    batches = "One batch" if diagnosis.batches == 1 else f"Means over {diagnosis.batches} batches"
    return f"{batches}; {diagnosis.shared:,} shared parameters."


def _figures(diagnosis: Diagnosis) -> dict[str, Figure]:
    tasks, pairs = list(diagnosis.tasks), diagnosis.pairs()
    panel = np.array([[diagnosis.cosines[a][b] for b in tasks] for a in reversed(tasks)])
    figures = {
        "shares": share_bars({"losses": diagnosis.share, "logarithms": diagnosis.log_share}),
        "cosines": heat_maps({"": panel}, ("", tasks), ("", tasks[::-1]), "cosine", limits=(-1.0, 1.0)),
    }
    if len(diagnosis.layers) > 1 and len(pairs) <= MOST_PAIRS:
        panel = np.array([[matrix[a][b] for a, b in pairs] for matrix in diagnosis.layers.values()])
        across = ("", [f"{shorten(a, HALF)}, {shorten(b, HALF)}" for a, b in pairs])
        layers = ("", list(diagnosis.layers))
        figures["cosines_by_layer"] = heat_maps({"": panel}, across, layers, "cosine", limits=(-1.0, 1.0))
    return figures


def _details(diagnosis: Diagnosis) -> dict[str, Sequence[Row]]:
    outputs: list[Row] = [
        {
            "task": task,
            "predictions": (each.low, each.high),
            "targets": (each.target_low, each.target_high),
            "last operation": each.operation or "not known to be bounded",
            "targets out of reach": each.outside,
        }
        for task, each in diagnosis.outputs.items()
    ]
    layers: list[Row] = [
        _without_nan({"layer group": title, **{f"{a}, {b}": matrix[a][b] for a, b in diagnosis.pairs()}})
        for title, matrix in diagnosis.layers.items()
        if len(diagnosis.tasks) > 1
    ]
    tables: dict[str, Sequence[Row]] = {"Predictions and targets": outputs, "Cosines by layer group": layers}
    return {name: rows for name, rows in tables.items() if rows}


def _without_nan(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row with empty cells for what is not known."""
    return {name: None if isinstance(value, float) and isnan(value) else value for name, value in row.items()}
