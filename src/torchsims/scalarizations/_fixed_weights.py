"""FixedWeights: weights chosen by hand."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._base import HeldWeights
from torchsims.spaces import Range, Space


@final
class FixedWeights(HeldWeights):
    r"""Weights chosen by hand, the same in every step: :math:`S = \sum_i w_i L_i`.

    - :math:`w` (``weights``): a weight per task, by name, not negative and not all zero. They are used as given, not
      divided by their sum, so that a common factor acts like a learning rate.
    - ``tasks``: the order of stacked losses; the sorted names of the weights by default.

    A task without labels adds nothing, and the weights of the others stay as they are. The right weights depend on the
    units of the losses.

    Example:
        >>> FixedWeights({"seg": 1.0, "depth": 10.0})({"seg": torch.tensor(0.5), "depth": torch.tensor(0.25)})
        tensor(3.)
    """

    linear: ClassVar[bool] = True
    short_name: ClassVar[str | None] = "fixed"
    options_by_task: ClassVar[str | None] = "weights"
    search_space: ClassVar[Mapping[str, Space]] = {"weights": Range(0.01, 100.0)}

    def __init__(self, weights: Mapping[str, float], tasks: Sequence[str] | None = None) -> None:
        if not all(0 <= w < math.inf for w in weights.values()) or not any(weights.values()):
            raise ValueError(
                "Parameter `weights` should be finite, not negative and not all zero. "
                f"Found `weights = {dict(weights)}`."
            )
        super().__init__(sorted(weights) if tasks is None else tasks)
        order = self.tasks or ()
        missing, unknown = sorted(set(order) - set(weights)), sorted(set(weights) - set(order))
        if missing or unknown:
            found = [f"no weight for task `{task}`" for task in missing]
            found += [f"a weight for `{name}`, which is not a task" for name in unknown]
            raise ValueError(f"Parameter `weights` should have one weight per task. Found {' and '.join(found)}.")
        self.weights = tuple(float(weights[task]) for task in order)

    def held_weights(self, losses: Tensor, labelled: Tensor) -> Tensor:
        # Built on the host and sent without waiting for the device.
        w = torch.tensor(self.weights, dtype=losses.dtype).to(losses.device, non_blocking=True)
        return w.where(labelled, 0)
