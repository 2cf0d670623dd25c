"""MGDA: the shortest vector in the convex hull of the gradients."""

from typing import Literal, final

from torch import Tensor

from torchsims._extras import needs
from torchsims.aggregations._base import WeightedAggregation
from torchsims.aggregations._torchjd import from_gramian

_NORMALIZERS = ("none", "loss", "norm", "loss+norm")


@final
class MGDA(WeightedAggregation):
    r"""The shortest vector in the convex hull of the gradients (Désidéri 2012; Sener and Koltun, NeurIPS 2018).

    .. math::
        d = \sum_i \alpha_i \frac{g_i}{n_i}, \qquad
        \alpha = \arg\min_{\alpha \in \Delta} \Big\lVert \sum_i \alpha_i \frac{g_i}{n_i} \Big\rVert^2

    - :math:`n_i` (``normalize``): 1 (``"none"``), :math:`L_i` (``"loss"``), :math:`\lVert g_i \rVert` (``"norm"``) or
      :math:`L_i \lVert g_i \rVert` (``"loss+norm"``). The second and the third make the direction independent of the
      units of the losses; the last, the authors' ``loss+``, divides by them twice. A gradient of zero is divided by 1.
    - :math:`\alpha`: by TorchJD's Frank-Wolfe iterations, at most ``max_iters``, until a step is shorter than
      ``epsilon``.

    At the minimum :math:`g_i^\top d \ge n_i \lVert d \rVert^2` for every task: all descend. So that this holds with
    normalisation too, the direction is made of the normalised gradients; the authors' script puts the
    weights :math:`\alpha_i` on the gradients themselves, which loses it.

    Example:
        >>> import torch
        >>> MGDA()(torch.tensor([[1.0, 1.0], [1.0, -1.0]]))
        tensor([1., 0.])
    """

    def __init__(
        self,
        normalize: Literal["none", "loss", "norm", "loss+norm"] = "none",
        *,
        epsilon: float = 1e-3,
        max_iters: int = 100,
    ) -> None:
        super().__init__()
        if normalize not in _NORMALIZERS:
            raise ValueError(
                f"Parameter `normalize` should be one of {_NORMALIZERS}. Found `normalize = {normalize!r}`."
            )
        for name, value in (("epsilon", epsilon), ("max_iters", max_iters)):
            if not value > 0:
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {value}`.")
        self.normalize = normalize
        self.positive = "loss" in normalize
        with needs("gradient"):
            from torchjd.aggregation import MGDAWeighting

            self._weighting = MGDAWeighting(epsilon=epsilon, max_iters=max_iters)

    def weights(self, gramian: Tensor, losses: Tensor, labelled: Tensor) -> Tensor:
        n = gramian.new_ones(len(gramian))
        if "loss" in self.normalize:
            n = n * losses
        if "norm" in self.normalize:
            norms = gramian.diagonal().sqrt()
            n = n * norms.where(norms > 0, 1)
        return from_gramian(self._weighting, gramian / n.outer(n)) / n
