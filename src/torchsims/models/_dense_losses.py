"""The losses of dense tasks as sums over the labelled pixels, and the number of those pixels."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from torchsims.losses import TaskLosses

SumAndCount = tuple[Tensor, Tensor]

BETA = 0.95  # the weight of an edge
SHORTEST = 1e-12  # the length of a predicted normal below which it has no direction


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
    total = cross_entropy(_single(prediction), target.clamp(min=-1), ignore_index=-1, reduction="sum")
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
    _same_shape("depth", prediction, target)
    valid = target > 0
    return (_single(prediction) - target).abs().where(valid, 0.0).sum(), valid.sum()


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
    _same_shape("normals", prediction, target)
    valid = (target != 0).any(dim=1)
    normals = _single(prediction)
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
    _same_shape("edges", prediction, target)
    logits = _single(prediction)
    weighed = torch.where(target > 0, BETA * softplus(-logits), (1 - BETA) * softplus(logits))
    valid = target >= 0
    return weighed.where(valid, 0.0).sum(), valid.sum()


LOSSES: dict[str, Callable[[Tensor, Tensor], SumAndCount]] = {
    "seg": segmentation_loss,
    "depth": depth_loss,
    "normals": normals_loss,
    "edges": edges_loss,
}


def dense_losses(predictions: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> TaskLosses:
    r"""Return the loss of every predicted task, as a sum over labelled pixels and their number.

    - ``seg``: cross-entropy, :func:`segmentation_loss`.
    - ``depth``: absolute error, :func:`depth_loss`.
    - ``normals``: one minus cosine, :func:`normals_loss`.
    - ``edges``: class-balanced binary cross-entropy, :func:`edges_loss`.

    A batch without labels of a task, or without the task at all, counts zero pixels; its head stays in the graph.

    Args:
        predictions: what the model returned, by task.
        targets: the labels, by task; other entries, such as the image, are not looked at.

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
        if task not in LOSSES:
            raise ValueError(f"The name of a task should be one of {', '.join(LOSSES)}. Found {task!r}.")
        if task in targets:
            total[task], count[task] = LOSSES[task](prediction, targets[task])
        else:
            total[task], count[task] = 0 * _single(prediction).sum(), 0
    return TaskLosses(total=total, count=count)


def _single(prediction: Tensor) -> Tensor:
    """Return it in single precision at least: a sum over many pixels overflows half precision."""
    return prediction.to(torch.promote_types(prediction.dtype, torch.float32))


def _same_shape(task: str, prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:
        raise ValueError(
            f"The prediction and the target of task `{task}` should have the same shape. "
            f"Found {tuple(prediction.shape)} and {tuple(target.shape)}."
        )
