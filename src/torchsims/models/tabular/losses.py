"""The losses of tabular tasks as sums over the labelled rows, and the number of those rows."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, logsigmoid

SumAndCount = tuple[Tensor, Tensor]

EXACT = 1e-15  # the square of what rounding of single precision leaves of a unit: no row is known better


def number_loss(
    prediction: Tensor,
    target: Tensor,
    sd: Tensor | float = 1.0,
    weight: Tensor | None = None,
    *,
    complete: bool = False,
) -> SumAndCount:
    r"""Return the squared error in native units summed over the rows whose target is known, and their number.

    .. math::
        \text{total} = \text{sd}^2 \sum_{r : z_r \text{ known}} (\hat z_r - z_r)^2

    Single precision holds z whatever the unit, and double precision the total, which is never exactly zero: its
    mean is at least 1e-15 :math:`\text{sd}^2`, so that its logarithm exists where a batch is fitted to the last bit.

    - :math:`\hat z` (``prediction``): in standard units, `row x 1`, or `row x target` for several targets at once;
    - :math:`z` (``target``): in standard units, `row`, or `row x target`; NaN where missing;
    - ``sd``: how many native units a standard unit is; in double precision, `target`, if there are several;
    - ``weight``: how much each row counts, `row`; then the sum is weighted, and the number is the sum of the weights;
    - ``complete``: whether no target is missing, so that none is looked for: the same numbers in half the operations.

    Example:
        >>> total, count = number_loss(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0.0, torch.nan, 3.5]), sd=10)
        >>> total.item(), count.item()
        (125.0, 2)
    """
    error = prediction.reshape(target.shape) - target
    if complete and weight is None:
        squares, count = error.double().square(), torch.full(target.shape[1:], len(target), device=target.device)
    else:
        known = ~target.isnan()
        squares = error.where(known, 0.0).double().square()
        if weight is not None:
            counted = weight.double().reshape(-1, *[1] * (target.ndim - 1))
            squares, known = squares * counted, known * counted
        count = known.sum(0)
    total = squares.sum(0)
    return sd**2 * torch.maximum(total, EXACT * count), count


def class_loss(prediction: Tensor, target: Tensor, weight: Tensor | None = None) -> SumAndCount:
    r"""Return the cross-entropy summed over the rows whose class is known, and their number.

    .. math::
        \text{total} = -\sum_{r : y_r \ge 0} \ln p_r(y_r), \qquad p = \operatorname{softmax}(x)
        \text{ or, with one output, } p(1) = \frac1{1 + e^{-x}}

    - :math:`x` (``prediction``): scores, `row x class`, or the logit of class 1, `row x 1`;
    - :math:`y` (``target``): classes, `row`; negative where missing;
    - ``weight``: how much each row counts, `row`; then the sum is weighted, and the number is the sum of the weights.

    In double precision: where a class is certain, the loss of single precision would be zero.

    Example:
        >>> total, count = class_loss(torch.zeros(3, 1), torch.tensor([0, 1, -1]))
        >>> round((total / count).exp().item(), 6), count.item()
        (2.0, 2)
    """
    known, x = target >= 0, prediction.double()
    if x.shape[1] > 1 and weight is None:
        return cross_entropy(x, target.clamp(min=-1), ignore_index=-1, reduction="sum"), known.sum()
    if x.shape[1] > 1:
        each = cross_entropy(x, target.clamp(min=-1), ignore_index=-1, reduction="none")
    else:
        x = x.squeeze(-1)
        each = -logsigmoid(torch.where(target > 0, x, -x)).where(known, 0.0)
    if weight is None:
        return each.sum(), known.sum()
    return (each * weight.double()).sum(), (known * weight.double()).sum()
