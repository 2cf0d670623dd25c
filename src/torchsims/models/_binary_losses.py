"""The losses of tasks with two classes of unequal size, as sums over the labelled pixels."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from torchsims.models._pixels import SumAndCount, same_shape, single

BETA = 0.95  # the weight of an edge


def edges_loss(prediction: Tensor, target: Tensor) -> SumAndCount:
    r"""Return the class-balanced binary cross-entropy summed over the labelled pixels, and their number.

    .. math::
        \text{total} = -\sum_{p : y_p \ge 0} \beta \, y_p \ln \sigma(x_p) + (1 - \beta) (1 - y_p) \ln(1 - \sigma(x_p))

    - :math:`\beta = 0.95` is the weight of an edge. The paper prints 1 instead of :math:`1 - \beta`, which would make
      an edge count less than a pixel without one, against its own words; the form here is the usual one.

    Args:
        prediction: logits x, `batch x 1 x height x width`.
        target: 1 where there is an edge, 0 where there is none, of the same shape; negative ones are left out.

    Example:
        >>> total, count = edges_loss(torch.zeros(1, 1, 1, 3), torch.tensor([[[[1.0, 0.0, -1.0]]]]))
        >>> round(total.item(), 4), count.item()  # 0.95 ln 2 + 0.05 ln 2
        (0.6931, 2)
    """
    same_shape("edges", prediction, target)
    logits = single(prediction)
    weighed = torch.where(target > 0, BETA * softplus(-logits), (1 - BETA) * softplus(logits))
    valid = target >= 0
    return weighed.where(valid, 0.0).sum(), valid.sum()


def saliency_loss(prediction: Tensor, target: Tensor) -> SumAndCount:
    r"""Return the class-balanced binary cross-entropy summed over the labelled pixels, and their number.

    .. math::
        \text{total} = -\sum_n \sum_{p : y_{np} \ge 0} \beta_n \, y_{np} \ln \sigma(x_{np})
            + (1 - \beta_n) (1 - y_{np}) \ln(1 - \sigma(x_{np}))

    - :math:`\beta_n` is the share of the labelled pixels of image :math:`n` that are not salient: both classes weigh
      the same. The usual code takes the share of a batch, which depends on how images are split into batches and ranks.
      In an image of one class nothing can be balanced, and :math:`\beta_n = 1/2`; its loss would be zero otherwise.

    Args:
        prediction: logits x, `batch x 1 x height x width`.
        target: 1 where a pixel is salient, 0 where it is not, of the same shape; negative ones are left out.

    Example:
        >>> total, count = saliency_loss(torch.zeros(1, 1, 1, 4), torch.tensor([[[[1.0, 0.0, 0.0, 0.0]]]]))
        >>> round(total.item(), 4), count.item()  # (3/4 + 3 * 1/4) ln 2
        (1.0397, 4)
    """
    same_shape("saliency", prediction, target)
    logits = single(prediction)
    valid = target >= 0
    ones, zeros = ((mask & valid).flatten(1).sum(dim=1) for mask in (target > 0, target <= 0))
    share = zeros / (ones + zeros).clamp(min=1)
    beta = share.where((ones > 0) & (zeros > 0), 0.5).to(logits).view(-1, 1, 1, 1)
    weighed = torch.where(target > 0, beta * softplus(-logits), (1 - beta) * softplus(logits))
    return weighed.where(valid, 0.0).sum(), valid.sum()
