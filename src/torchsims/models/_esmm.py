from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from torchsims.models._features import Embedded, check_outputs, perceptron


@final
class ESMM(nn.Module):
    r"""The entire-space model: clicks, and clicks that end in a purchase, of all impressions (Ma et al., SIGIR 2018).

    .. math::
        p_\text{ctcvr} = p_\text{ctr} \cdot p_\text{cvr}

    Two towers over shared embeddings say how likely a click, and a purchase after a click, are. The losses are those of
    ``ctr`` and ``ctcvr``; the conversion rate is never trained on clicks alone, so that it suits all impressions.
    Outputs are logits; that of the product is :math:`\ln p - \ln(1 - p)`, computed from logarithms.

    Args:
        outputs: the tasks, ``ctr`` and ``ctcvr``, with one output each.
        numbers: how many numbers a row has.
        codes: how many codes each categorical feature has.
        bottom: the width of the first hidden layer of a tower.
        tower: the width of the second one.
        embedding: the length of the embedding of a category.
        dropout: the share of hidden units left out in training.

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
        super().__init__()
        check_outputs(outputs)
        if set(outputs) != {"ctr", "ctcvr"}:
            raise ValueError(f"The tasks of ESMM should be ctr and ctcvr. Found {', '.join(outputs)}.")
        self.features = Embedded(numbers, codes, embedding)
        layers = [bottom, tower]
        self.towers = nn.ModuleDict(
            {
                task: nn.Sequential(perceptron(self.features.width, layers, dropout), nn.Linear(tower, 1))
                for task in ("ctr", "cvr")
            }
        )

    def forward(self, numbers: Tensor, codes: Tensor) -> dict[str, Tensor]:
        """Return logits of ``ctr``, ``cvr`` and ``ctcvr``, `row x 1`."""
        x = self.features(numbers, codes)
        ctr, cvr = (self.towers[task](x) for task in ("ctr", "cvr"))
        both = logsigmoid(ctr) + logsigmoid(cvr)  # below zero: no probability is one
        return {"ctr": ctr, "cvr": cvr, "ctcvr": both - torch.log(-torch.expm1(both))}
