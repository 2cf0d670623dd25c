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
    logarithms. The hidden layers of a tower have the widths ``bottom`` and ``tower``; other arguments as in
    :class:`~torchsims.models.tabular.base.TabularNetwork`.

    Example:
        >>> model = ESMM({"ctr": 1, "ctcvr": 1}, numbers=2, codes=(5, 3))
        >>> out = model(torch.randn(4, 2), torch.zeros(4, 2, dtype=torch.int64))
        >>> p = {task: logit.sigmoid() for task, logit in out.items()}
        >>> torch.allclose(p["ctcvr"], p["ctr"] * p["cvr"])
        True
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
