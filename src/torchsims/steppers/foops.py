"""FOOPS: the saddle of SIMS without the logarithm."""

from typing import ClassVar, final

from torchsims.steppers.sims import SIMS
from torchsims.transforms import Identity, Transform

__all__ = ["FOOPS"]


@final
class FOOPS(SIMS):
    r"""The merit function of the losses themselves: the saddle of :class:`SIMS` with :math:`\psi(x) = x`.

    The largest unit decides: it is what SIMS is compared with. Arguments as in :class:`SIMS`; only the default of
    ``transform`` differs.

    Example:
        >>> from functools import partial
        >>> import torch
        >>> from torch.optim import SGD
        >>> from torchsims import FOOPS
        >>> model = torch.nn.Linear(1, 2)
        >>> method = FOOPS(model, tau=1.0, outer=partial(SGD, lr=0.1), inner=partial(SGD, lr=0.5))
        >>> report = method.step(lambda model, x: (model(x) - 1).square().mean(0), torch.ones(3, 1))
        >>> round(report.merit, 4)
        0.6931

    Reference:
        Chen et al., Efficient first-order optimization on the Pareto set for multi-objective learning, 2025.
    """

    _default_transform: ClassVar[type[Transform]] = Identity
