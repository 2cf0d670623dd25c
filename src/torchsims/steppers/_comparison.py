"""The losses at both copies, compared once per step: the weights, the coefficients and the merit function."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import final

from torch import Tensor

from torchsims import merit
from torchsims.steppers._global_batch import GlobalBatch
from torchsims.transforms import Transform

__all__ = ["Comparison", "compare", "smooth_max"]


@final
@dataclass(eq=False)
class Comparison:
    r"""What a step needs of the merit function.

    Attributes:
        weights: the weights of the tasks in the step of the model, `m`.
        for_theta: the coefficients of the gradients of the losses in the step of the model, `m`.
        for_challenger: those in the step of the challenger, `m`.
        differences: :math:`d`, of which :math:`h` is the smooth maximum, `m`.
    """

    weights: Tensor
    for_theta: Tensor
    for_challenger: Tensor
    differences: Tensor


def compare(
    here: GlobalBatch,
    there: GlobalBatch,
    *,
    tau: float,
    transform: Transform,
    augment: float,
    preference: Tensor | None,
    reference: Tensor | None,
) -> Comparison:
    """Compare the losses at the model and at the challenger; settings as in :mod:`torchsims.merit`."""
    losses, challenger, labelled = here.adjusted, there.adjusted, here.mask
    d = transform.difference_of_values(challenger, losses)
    w = chosen = merit.simplex(d, tau=tau, augment=augment, labelled=labelled)
    if preference is not None:  # the challenger compares, the model chooses
        chosen = merit.weights(
            losses,
            challenger,
            tau=tau,
            transform=transform,
            augment=augment,
            labelled=labelled,
            preference=preference,
            reference=reference,
        )
    return Comparison(
        weights=chosen,
        for_theta=transform.weigh(chosen, losses),
        for_challenger=transform.weigh(w, challenger),
        differences=d,
    )


def smooth_max(values: Sequence[float], tau: float, augment: float) -> float:
    """Return :func:`torchsims.merit.smooth_max` of numbers of the host: no device computes what is only reported."""
    if not values:
        return -inf
    largest = max(values)
    smooth = largest + tau * log(sum([exp((value - largest) / tau) for value in values]))
    return (smooth + augment * sum(values)) / (1 + augment * len(values))
