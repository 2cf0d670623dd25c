"""PBI: penalty-based boundary intersection."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar, final

import torch
from torch import Tensor

from torchsims.scalarizations._ideal import FromIdeal, PerTask
from torchsims.scalarizations._preference import Preferences
from torchsims.spaces import Range, Space


@final
class PBI(FromIdeal):
    r"""Penalty-based boundary intersection (Zhang and Li, MOEA/D, IEEE TEVC 2007): stay near a ray, and follow it down.

    .. math::
        S = d_1 + \theta d_2, \qquad
        d_1 = \frac{\lambda^\top (L - z)}{\lVert \lambda \rVert}, \qquad
        d_2 = \left\lVert L - z - d_1 \frac{\lambda}{\lVert \lambda \rVert} \right\rVert

    - :math:`\lambda`: the direction of the ray from :math:`z`; :math:`\lambda_i = 1 / p_i`, so that more preference for
      a task asks for a smaller loss of it. The paper gives :math:`\lambda` itself.
    - :math:`\theta` (``theta``): the penalty of the distance to the ray; 5 in the paper.
    - :math:`z` (``ideal``): the least value of every loss, by task name or in the order of the losses; zero by default.
    - :math:`p` (``preference``): positive, by task, 1 for those not named; all equal by default.
    - ``tasks``: the order of stacked losses; the sorted names of the preference by default. Losses by name need none.

    A task without labels is no coordinate of the ray. The objective depends on the units of the losses. It need not
    grow with every loss: away from the ray the weight of a task can be negative, and a step then raises its loss.

    Example:
        >>> PBI()(torch.tensor([3.0, 3.0])), PBI()(torch.tensor([4.0, 2.0]))
        (tensor(4.2426), tensor(11.3137))
    """

    search_space: ClassVar[Mapping[str, Space]] = {"theta": Range(0.1, 100.0)}

    def __init__(
        self,
        theta: float = 5.0,
        *,
        ideal: PerTask | None = None,
        preference: Preferences | None = None,
        tasks: Sequence[str] | None = None,
    ) -> None:
        super().__init__(None, ideal, tasks)
        if not 0 <= theta < inf:
            raise ValueError(f"Parameter `theta` should not be negative. Found `theta = {theta}`.")
        self.theta = theta
        self._prefer(preference)

    def objective(self, losses: Tensor, labelled: Tensor) -> Tensor:
        distances = self._from_ideal(losses).where(labelled, 0)
        ray = torch.ones_like(losses) if self.preference is None else 1 / self.preference.like(losses)
        ray = ray.where(labelled, 0)
        ray = ray / torch.linalg.vector_norm(ray, dim=-1, keepdim=True)
        along = (ray * distances).sum(-1, keepdim=True)
        across = torch.linalg.vector_norm(distances - along * ray, dim=-1)
        pbi: Tensor = along.squeeze(-1) + self.theta * across
        return pbi
