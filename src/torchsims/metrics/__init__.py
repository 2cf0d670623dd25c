"""Metrics of predictions over a whole data set, on one rank or on several, and of a method over all tasks.

Every metric of a task is a ``torchmetrics.Metric`` whose state is sums, or all scores where sums would not be exact.
Needs the extra ``[experiments]``.

Example:
    >>> import torch
    >>> from torchsims.metrics import Depth, delta_b
    >>> metric = Depth()
    >>> for prediction, target in [(torch.ones(2, 1, 4, 4), torch.full((2, 1, 4, 4), 2.0))]:
    ...     metric.update(prediction, target)
    >>> values = {"depth": {name: value.item() for name, value in metric.compute().items()}}
    >>> delta_b(values, {"depth": {"abs_err": 2.0, "rel_err": 1.0}}, {"depth": metric.higher_is_better})
    0.5
"""

from torchsims._extras import needs

with needs("experiments"):
    from torchsims.metrics._base import TaskMetric
    from torchsims.metrics._classes import AUC, Accuracy, Classification
    from torchsims.metrics._delta_b import delta_b
    from torchsims.metrics._depth import Depth
    from torchsims.metrics._edges import Edges
    from torchsims.metrics._hypervolume import hypervolume, non_dominated
    from torchsims.metrics._normals import Normals
    from torchsims.metrics._regression import Regression
    from torchsims.metrics._saliency import Saliency
    from torchsims.metrics._segmentation import Segmentation

__all__ = [
    "AUC",
    "Accuracy",
    "Classification",
    "Depth",
    "Edges",
    "Normals",
    "Regression",
    "Saliency",
    "Segmentation",
    "TaskMetric",
    "delta_b",
    "hypervolume",
    "non_dominated",
]
