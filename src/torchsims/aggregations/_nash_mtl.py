"""Nash-MTL: the Nash bargaining solution."""

import warnings
from typing import Any, final

import torch
from torch import Tensor

from torchsims._extras import needs
from torchsims.aggregations._base import WeightedAggregation


@final
class NashMTL(WeightedAggregation):
    r"""The Nash bargaining solution of the tasks (Navon et al., ICML 2022).

    .. math::
        d = \sum_i \alpha_i g_i, \qquad G \alpha = 1 / \alpha, \qquad G_{ij} = g_i^\top g_j

    - :math:`\alpha` (``alpha``, `m`): found by TorchJD in at most ``optim_niter`` convex problems of the Gramian
      divided by its norm, starting from that of the last step; kept in the ``state_dict``, which TorchJD's own is not.
    - ``max_norm``: the longest :math:`d`; 0 for no limit.
    - ``update_every``: the number of steps between updates of :math:`\alpha`; 1 updates it in every step.

    The solver stops early. For gradients of like lengths it makes about 1e-8 of a rounding error in the Gramian, for
    others percents: that is how far the steps of a batch and of its micro-batches, or of several ranks, can differ.
    The Gramians differ by rounding only.

    The length of :math:`d` does not depend on that of the gradients, so a step is as long at the end of a training as
    at its start. A task without labels keeps its :math:`\alpha`.

    Example:
        >>> NashMTL()(torch.tensor([[100.0, 0.0], [0.0, 1.0]])).round(decimals=3)
        tensor([0.7070, 0.7070])
    """

    alpha: Tensor

    def __init__(self, max_norm: float = 1.0, *, update_every: int = 1, optim_niter: int = 20) -> None:
        super().__init__()
        if not max_norm >= 0:
            raise ValueError(f"Parameter `max_norm` should not be negative. Found `max_norm = {max_norm}`.")
        for name, value in (("update_every", update_every), ("optim_niter", optim_niter)):
            if not (isinstance(value, int) and value > 0):
                raise ValueError(f"Parameter `{name}` should be a positive integer. Found `{name} = {value}`.")
        self.max_norm, self.update_every, self.optim_niter = max_norm, update_every, optim_niter
        self.steps = 0  # a number and not a buffer: reading it in a step waits for no device
        self._solvers: dict[int, Any] = {}  # by the number of tasks; made once, because that takes long
        self._register_statistics("alpha")
        self._solver(1)  # says at once if a package is missing

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        known = labelled.cpu()
        alpha = self._get_statistic("alpha", known.double(), 1.0)
        # A matrix with this Gramian: TorchJD uses the Jacobian only to form it and to measure the direction.
        values, vectors = torch.linalg.eigh(gramian.to("cpu", torch.float64))
        root = vectors * values.clamp(min=0).sqrt()
        if self.steps % self.update_every == 0:
            alpha = alpha.masked_scatter(known, self._solve(alpha[known], root))
        if self.training:
            self.steps += 1
            self.alpha = alpha
        return self._clipped(alpha[known], root).to(gramian)

    def _solve(self, start: Tensor, root: Tensor) -> Tensor:
        if len(root) == 1:  # the equation is then solved by hand; the solver refuses it
            norm = root.abs()[0]
            return (1 / norm).where(norm > 0, start)
        if not root.any():  # a point where all gradients are zero
            return start
        solver = self._solver(len(root))
        solver.prvs_alpha = start.numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of cvxpy, about speed and accuracy, in every step
            result: Tensor = solver(root)
        return result

    def _clipped(self, alpha: Tensor, root: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(alpha @ root)
        return alpha / norm * self.max_norm if 0 < self.max_norm < norm else alpha

    def _solver(self, tasks: int) -> Any:
        if tasks not in self._solvers:
            with needs("gradient"):
                from torchjd.aggregation import NashMTL as Solver

                solver = Solver(n_tasks=tasks, max_norm=0.0, optim_niter=self.optim_niter)
            self._solvers[tasks] = solver.weighting
        return self._solvers[tasks]

    def get_extra_state(self) -> int:
        return self.steps

    def set_extra_state(self, state: int) -> None:
        self.steps = state
