"""Aligned-MTL: gradients with aligned principal components."""

from typing import Literal, final

from torchsims._extras import needs
from torchsims.aggregations._torchjd import TorchJDWeighting

_SCALES = ("min", "median", "rmse")


@final
class AlignedMTL(TorchJDWeighting):
    r"""Gradients with aligned principal components (Senushkin et al., CVPR 2023).

    .. math::
        d = \frac{1}{m} \sum_i \hat g_i, \qquad \hat J = \sqrt{\lambda} \, (J J^\top)^{-1/2} J

    - :math:`\hat J`: the nearest matrix to the Jacobian :math:`J` whose singular values are all equal.
    - :math:`\lambda` (``scale``): what they become: the smallest (``"min"``), the median (``"median"``) or the mean
      (``"rmse"``) of the eigenvalues of :math:`J J^\top` that are not zero.

    By TorchJD. With ``"min"``, the paper's choice, a step is as short as the gradients' least component.

    Example:
        >>> import torch
        >>> AlignedMTL()(torch.tensor([[100.0, 0.0], [0.0, 1.0]])).round(decimals=4)
        tensor([0.5000, 0.5000])
    """

    def __init__(self, scale: Literal["min", "median", "rmse"] = "min") -> None:
        super().__init__()
        if scale not in _SCALES:
            raise ValueError(f"Parameter `scale` should be one of {_SCALES}. Found `scale = {scale!r}`.")
        with needs("gradient"):
            from torchjd.aggregation import AlignedMTLWeighting

            self._weighting = AlignedMTLWeighting(scale_mode=scale)
