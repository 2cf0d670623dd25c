"""The entire-space multi-task model of click and conversion rates."""

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from torchsims.models.tabular.base import TabularNetwork, perceptron


@final
class ESMM(TabularNetwork):
    r"""The entire-space model: clicks, and clicks that end in a purchase, of all impressions (Ma et al., SIGIR 2018).

    .. math::
        p_\text{ctcvr} = p_\text{ctr} \cdot p_\text{cvr}

    Two towers over shared embeddings predict the probability of a click, and of a purchase after a click. The losses
    are those of ``ctr`` and ``ctcvr``; the conversion rate is not trained on clicked impressions alone, so that it
    holds for all impressions. Outputs are logits; that of the product is :math:`\ln p - \ln(1 - p)`, computed from
    logarithms.

    Args:
        outputs: the tasks, ``ctr`` and ``ctcvr``, with one output each.
        numbers, codes, embedding: see :class:`TabularNetwork`.
        bottom: width of the first hidden layer of a tower.
        tower: width of the second hidden layer of a tower.
        dropout: share of the hidden units that are dropped in training.

    Example:
        >>> from torchsims.models import ESMM
        >>> model = ESMM({"ctr": 1, "ctcvr": 1}, numbers=2, codes=(5, 3))
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        >>> sorted(out)
        ['ctcvr', 'ctr', 'cvr']
        >>> p = {task: logit.sigmoid() for task, logit in out.items()}
        >>> torch.allclose(p["ctcvr"], p["ctr"] * p["cvr"])
        True

    Reference:
        Ma, Zhao, Huang, Wang, Hu, Zhu and Gai, Entire Space Multi-Task Model: An Effective Approach for Estimating
        Post-Click Conversion Rate, SIGIR 2018.
    """

    def __init__(
        self,
        outputs: Mapping[str, int],
        numbers: int,
        codes: Sequence[int] = (),
        bottom: int = 128,
        tower: int = 32,
        embedding: int = 8,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(outputs, numbers, codes, embedding)
        if set(outputs) != {"ctr", "ctcvr"}:
            raise ValueError(f"The tasks of ESMM should be ctr and ctcvr. Found {', '.join(outputs)}.")
        width, layers = self.features.width, [bottom, tower]
        self.towers = nn.ModuleList(
            [nn.Sequential(perceptron(width, layers, dropout), nn.Linear(tower, 1)) for _ in ("ctr", "cvr")]
        )

    def represent(self, x: Tensor) -> Sequence[Tensor]:
        """Return the features, for both towers."""
        return [x, x]

    def forward(self, numbers: Tensor, codes: Tensor) -> dict[str, Tensor]:
        """Return logits of ``ctr``, ``cvr`` and ``ctcvr``, `row x 1`."""
        x = self.features(numbers, codes)
        ctr, cvr = (tower(part) for tower, part in zip(self.towers, self.represent(x), strict=True))
        both = logsigmoid(ctr) + logsigmoid(cvr)  # negative: no probability is one
        return {"ctr": ctr, "cvr": cvr, "ctcvr": both - torch.log(-torch.expm1(both))}
