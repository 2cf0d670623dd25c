"""The losses of dense tasks as sums over the labelled pixels, and the number of those pixels."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from torchsims.losses import TaskLosses

SumAndCount = tuple[Tensor, Tensor]

SHORTEST = 1e-12  # length of a predicted normal below which it has no direction
BETA = 0.95  # weight of an edge pixel


def segmentation_loss(prediction: Tensor, target: Tensor) -> SumAndCount:
    r"""Return the cross-entropy summed over the labelled pixels, and their number.

    .. math::
        \text{total} = -\sum_{p : y_p \ge 0} \ln \operatorname{softmax}(x_p)_{y_p}

    Args:
        prediction: scores x, `batch x class x height x width`.
        target: labels y, `batch x height x width`; negative ones are left out.

    Example:
        >>> total, count = segmentation_loss(torch.zeros(1, 2, 1, 3), torch.tensor([[[0, 1, -1]]]))
        >>> (total / count).exp().item(), count.item()
        (2.0, 2)
    """
    total = cross_entropy(_to_single(prediction), target.clamp(min=-1), ignore_index=-1, reduction="sum")
    return total, (target >= 0).sum()


def depth_loss(prediction: Tensor, target: Tensor) -> SumAndCount:
    r"""Return the absolute error of the depth summed over the pixels where it is known, and their number.

    .. math::
        \text{total} = \sum_{p : d_p > 0} |\hat d_p - d_p|

    Args:
        prediction: depths, `batch x 1 x height x width`.
        target: depths d of the same shape; 0 is not known.

    Example:
        >>> total, count = depth_loss(torch.ones(1, 1, 1, 3), torch.tensor([[[[3.0, 2.0, 0.0]]]]))
        >>> total.item(), count.item()
        (3.0, 2)
    """
    _check_shapes("depth", prediction, target)
    valid = target > 0
    return (_to_single(prediction) - target).abs().where(valid, 0.0).sum(), valid.sum()


def normals_loss(prediction: Tensor, target: Tensor) -> SumAndCount:
    r"""Return one minus the cosine summed over the pixels whose normal is known, and their number.

    .. math::
        \text{total} = \sum_{p : n_p \ne 0} 1 - \left\langle \frac{\hat n_p}{|\hat n_p|}, n_p \right\rangle

    Args:
        prediction: normals of any length, `batch x 3 x height x width`.
        target: unit normals n of the same shape; a zero vector is not known.

    Example:
        >>> target = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).T.view(1, 3, 1, 2)
        >>> total, count = normals_loss(torch.ones(1, 3, 1, 2), target)
        >>> round(total.item(), 3), count.item()  # 1 - 1 / sqrt(3)
        (0.423, 1)
    """
    _check_shapes("normals", prediction, target)
    valid = (target != 0).any(dim=1)
    normals = _to_single(prediction)
    # Sums of squares: ten times faster here than a norm across a dimension with strides.
    length = normals.square().sum(dim=1).clamp(min=SHORTEST**2).sqrt()
    cosine = (normals * target).sum(dim=1) / length
    return (1 - cosine).where(valid, 0.0).sum(), valid.sum()


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
    _check_shapes("edges", prediction, target)
    logits = _to_single(prediction)
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
    _check_shapes("saliency", prediction, target)
    logits = _to_single(prediction)
    valid = target >= 0
    ones, zeros = ((mask & valid).flatten(1).sum(dim=1) for mask in (target > 0, target <= 0))
    share = zeros / (ones + zeros).clamp(min=1)
    beta = share.where((ones > 0) & (zeros > 0), 0.5).to(logits).view(-1, 1, 1, 1)
    weighed = torch.where(target > 0, beta * softplus(-logits), (1 - beta) * softplus(logits))
    return weighed.where(valid, 0.0).sum(), valid.sum()


DENSE_LOSSES: dict[str, Callable[[Tensor, Tensor], SumAndCount]] = {
    "seg": segmentation_loss,
    "depth": depth_loss,
    "normals": normals_loss,
    "edges": edges_loss,
    "parts": segmentation_loss,
    "saliency": saliency_loss,
}


def dense_losses(predictions: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> TaskLosses:
    r"""Return the loss of every predicted task, as a sum over labelled pixels and their number.

    The tasks are ``seg``, ``depth``, ``normals``, ``edges``, ``saliency`` and ``parts``, a segmentation of human parts.
    A batch without labels of a task, or without the task at all, counts zero pixels; its head stays in the graph.

    Args:
        predictions: what the model returned, by task.
        targets: the labels, by task; other entries, such as the image, are ignored.

    Example:
        >>> from torchsims.data import Scenes
        >>> from torchsims.models import HPS, dense_losses
        >>> batch = Scenes(size=2).batch([0, 1])
        >>> model = HPS({"seg": 8, "depth": 1, "normals": 3})
        >>> losses = dense_losses(model(batch["image"]), batch)
        >>> sorted(losses.mean())
        ['depth', 'normals', 'seg']
        >>> losses.count["normals"].item() == (batch["depth"] > 0).sum().item()
        True
    """
    total: dict[str, Tensor] = {}
    count: dict[str, Tensor | float] = {}
    for task, prediction in predictions.items():
        if task not in DENSE_LOSSES:
            raise ValueError(f"The name of a task should be one of {', '.join(DENSE_LOSSES)}. Found {task!r}.")
        if task in targets:
            total[task], count[task] = DENSE_LOSSES[task](prediction, targets[task])
        else:
            total[task], count[task] = (0 * prediction).sum(), 0
    return TaskLosses(total=total, count=count)


def _to_single(prediction: Tensor) -> Tensor:
    """Return the prediction in single precision at least: a sum over many pixels overflows half precision."""
    return prediction.to(torch.promote_types(prediction.dtype, torch.float32))


def _check_shapes(task: str, prediction: Tensor, target: Tensor) -> None:
    """Raise if the shapes differ."""
    if prediction.shape != target.shape:
        raise ValueError(
            f"The prediction and the target of task `{task}` should have the same shape. "
            f"Found {tuple(prediction.shape)} and {tuple(target.shape)}."
        )
