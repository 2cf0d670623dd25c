"""What a diagnosis found: numbers by task, and sentences."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, final

__all__ = ["Diagnosis", "Finding", "OutputRange"]

Numbers = Mapping[str, float]
Matrix = Mapping[str, Mapping[str, float]]


@final
@dataclass(frozen=True)
class Finding:
    """Something that stands out, and the tasks that it is about.

    Attributes:
        kind: ``dominates``, ``dropped``, ``chased``, ``far``, ``not positive``, ``conflict``, ``missing``, ``noisy``,
            ``stuck``, ``unreachable`` or ``nothing shared``.
        tasks: the tasks.
        sentence: what was found, with its numbers, and what helps.

    Example:
        >>> Finding("noisy", ("depth",), "The loss of `depth` varies.").tasks
        ('depth',)
    """

    kind: str
    tasks: tuple[str, ...]
    sentence: str


@final
@dataclass(frozen=True)
class OutputRange:
    """The range of the predictions of a task, of its targets, and what its last operation allows.

    Attributes:
        low: the smallest prediction.
        high: the largest prediction.
        target_low: the smallest known target.
        target_high: the largest known target.
        operation: the last operation, if its range is known: ``sigmoid``, ``relu``, ...
        lower: what no prediction can be below; minus infinity if nothing is known.
        upper: what no prediction can be above; infinity if nothing is known.
        outside: the share of the known targets that no prediction can be equal to.

    Example:
        >>> OutputRange(0.1, 0.9, 0.5, 9.8, "sigmoid", 0.0, 1.0, outside=0.8).outside
        0.8
    """

    low: float
    high: float
    target_low: float
    target_high: float
    operation: str
    lower: float
    upper: float
    outside: float


@final
@dataclass(frozen=True)
class Diagnosis:
    r"""The losses and gradients of a model on a few batches, by task; made by :func:`torchsims.diagnose`.

    .. math::
        g_i = \nabla_\theta L_i, \qquad
        \text{share}_i = \frac{\lVert g_i \rVert}{\sum_j \lVert g_j \rVert}, \qquad
        \text{log\_share}_i = \frac{\lVert g_i \rVert / L_i}{\sum_j \lVert g_j \rVert / L_j}, \qquad
        \text{cosine}_{ij} = \frac{\langle g_i, g_j \rangle}{\lVert g_i \rVert \lVert g_j \rVert}

    - :math:`\theta`: the parameters that tasks share;
    - :math:`L_i`: the loss of a batch, over all its micro-batches and ranks. Norms and cosines are means over the
      batches in which a task has labels. NaN stands for what is not known.

    Attributes:
        batches: the number of batches.
        shared: the number of shared parameters.
        loss: the mean loss, over all labels.
        spread: the standard deviation of the loss over the batches.
        smallest: the smallest loss of a batch.
        gradient: :math:`\lVert g_i \rVert`.
        share: the share of a task in the lengths of all gradients: what it has to say in a sum of the losses.
        log_share: the same in a sum of the logarithms of the losses; it does not depend on units.
        aligned: the cosine of :math:`g_i` and the sum of all: below zero a step along the sum makes the task worse.
        missing: the share of missing labels; relative to the task with the most labels if the closure returns no
            predictions, NaN if it counts none.
        unlabelled: the number of batches without a label.
        cosines: by task and task.
        layers: cosines by the name of a layer group, then by task and task.
        outputs: ranges of the predictions and targets, of the tasks whose predictions the closure returns.
        findings: what stands out; nothing if all is well.

    Example:
        >>> import torch
        >>> import torchsims
        >>> model = torch.nn.Linear(4, 2)
        >>> batches = [torch.randn(16, 4) for _ in range(3)]
        >>> found = torchsims.diagnose(model, lambda model, x: (model(x) - x[:, :2]).square().mean(0), batches)
        >>> round(sum(found.share.values()), 6), found.batches
        (1.0, 3)
    """

    batches: int
    shared: int
    loss: Numbers
    spread: Numbers
    smallest: Numbers
    gradient: Numbers
    share: Numbers
    log_share: Numbers
    aligned: Numbers
    missing: Numbers
    unlabelled: Mapping[str, int]
    cosines: Matrix
    layers: Mapping[str, Matrix]
    outputs: Mapping[str, OutputRange]
    findings: tuple[Finding, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks."""
        return tuple(self.loss)

    @property
    def advice(self) -> tuple[str, ...]:
        """The sentences of all findings, or one that says that there is none."""
        return tuple(finding.sentence for finding in self.findings) or (self._healthy(),)

    def pairs(self) -> list[tuple[str, str]]:
        """Return every pair of tasks once."""
        return [(a, b) for i, a in enumerate(self.tasks) for b in self.tasks[i + 1 :]]

    def rows(self) -> list[dict[str, object]]:
        """Return the table: one row per task."""
        return [
            {
                "task": task,
                "loss": self.loss[task],
                "sd": self.spread[task],
                "smallest": self.smallest[task],
                "gradient": self.gradient[task],
                "share": self.share[task],
                "log share": self.log_share[task],
                "cosine with sum": self.aligned[task],
                "missing": self.missing[task],
            }
            for task in self.tasks
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, the advice included."""
        return asdict(self) | {"advice": list(self.advice)}

    def __str__(self) -> str:
        rows = self.rows()
        header = list(rows[0])
        cells = [header, *([_text(value) for value in row.values()] for row in rows)]
        blocks = [_aligned(cells)]
        if len(self.tasks) > 1:
            cosines = [[task, *(_text(self.cosines[task][other]) for other in self.tasks)] for task in self.tasks]
            blocks.append(_aligned([["cosine", *self.tasks], *cosines]))
        return "\n\n".join([*blocks, "\n".join(f"- {sentence}" for sentence in self.advice)])

    def _healthy(self) -> str:
        shares = [share for share in self.share.values() if not isnan(share)]
        lowest = min((c for a, b in self.pairs() if not isnan(c := self.cosines[a][b])), default=None)
        if not shares:
            return "Nothing stands out."
        parts = f"shares of the gradient from {min(shares):.2g} to {max(shares):.2g}"
        return f"Nothing stands out: {parts}" + ("." if lowest is None else f", lowest cosine {lowest:z.2f}.")


def _text(value: object) -> str:
    if isinstance(value, float):
        return "-" if isnan(value) else f"{value:.3g}"
    return str(value)


def _aligned(cells: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *rest in cells:
        numbers = "".join(f"  {text:>{width}}" for text, width in zip(rest, widths[1:], strict=True))
        lines.append(f"{first:<{widths[0]}}{numbers}")
    return "\n".join(lines)
