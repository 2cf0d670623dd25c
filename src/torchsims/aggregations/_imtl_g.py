"""IMTL-G: equal projections on all gradients."""

from typing import final

from torchsims._extras import needs
from torchsims.aggregations._torchjd import TorchJDWeighting


@final
class IMTLG(TorchJDWeighting):
    r"""IMTL-G: a direction with equal projections on all gradients (Liu et al., ICLR 2021).

    .. math::
        d = \sum_i w_i g_i, \qquad \frac{g_i^\top d}{\lVert g_i \rVert} = \text{constant}, \qquad \sum_i w_i = 1

    - :math:`w`: :math:`G^+ (\lVert g_1 \rVert, \ldots, \lVert g_m \rVert)^\top` divided by its sum, by TorchJD, where
      :math:`G^+` is the pseudo-inverse of the Gramian. Weights can be negative.

    It is the direction, not its length, that does not depend on units.

    Example:
        >>> import torch
        >>> IMTLG()(torch.tensor([[4.0, 0.0], [0.0, 1.0]]))
        tensor([0.8000, 0.8000])
    """

    unit_trace = True

    def __init__(self) -> None:
        super().__init__()
        with needs("gradient"):
            from torchjd.aggregation import IMTLGWeighting

            self._weighting = IMTLGWeighting()
