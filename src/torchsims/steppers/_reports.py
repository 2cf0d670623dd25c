"""What a step reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

__all__ = ["NO_LABEL", "OVERFLOW", "MeritReport", "ObjectiveReport", "Report", "nan_if_unlabelled"]

NO_LABEL = "no task has a label in this batch"
OVERFLOW = "a scaled gradient overflowed"


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """What happened in a step. Losses are those of the global batch, over all micro-batches and ranks.

    Attributes:
        losses: the loss of every task at the model, before the step; NaN where no element had a label.
        weights: the weight of every task; zero where no element had a label.
        aux: what the closure returned beside the losses at the model; a tuple if there were several micro-batches.
        skipped: why no step is taken, or ``None``.
        regularizer: the value of the regularizer at the model, before the step; ``None`` if there is none.
    """

    losses: Mapping[str, float]
    weights: Mapping[str, float]
    aux: Any = None
    skipped: str | None = None
    regularizer: float | None = None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectiveReport(Report):
    r"""What happened in a step of a one-copy method; its weights are :math:`\partial S / \partial L_i`.

    Attributes:
        objective: the value of the objective :math:`S`.
    """

    objective: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MeritReport(Report):
    r"""What happened in a step of a two-copy method; its weights are a point of the simplex.

    Attributes:
        merit: the saddle function :math:`h`, proximal term included.
        challenger: the loss of every task at the challenger.
        coefficients: the factor of every loss in the step of the model, :math:`w_i \psi'(L_i)`: the weights of one-copy
            methods are such factors.
    """

    merit: float
    challenger: Mapping[str, float]
    coefficients: Mapping[str, float]


def nan_if_unlabelled(losses: Sequence[float], labelled: Sequence[float]) -> list[float]:
    """Return the losses, NaN for the tasks without labels."""
    if all(labelled):
        return list(losses)
    return [loss if label else float("nan") for loss, label in zip(losses, labelled, strict=True)]
