"""Gradient-level methods for many runs at once: what the runner needs of one, and those with a state."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor

from torchsims.transforms import Identity, Log, Transform

__all__ = ["DBMTL", "Directions", "GradNorm", "Memoryless", "Move"]


class Move(NamedTuple):
    """What a method makes of the gradients of one step.

    Attributes:
        directions: what to descend along, `runs x d`.
        learned: the gradients of what the method learns, in the order of :meth:`Directions.learned`.
        memory: what it keeps for the next step, in the order of :meth:`Directions.memory`.
    """

    directions: Tensor
    learned: tuple[Tensor, ...] = ()
    memory: tuple[Tensor, ...] = ()


class Directions(ABC):
    """A method that turns the gradients of the tasks into one direction, run by run."""

    transform: ClassVar[Transform] = Identity()
    """The function of the losses whose gradients the method is made for."""

    @abstractmethod
    def move(self, gradients: Tensor, losses: Tensor, learned: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> Move:
        """Return the directions and what goes with them; a pure function.

        Args:
            gradients: those of the tasks, `runs x m x d`.
            losses: the scaled losses, `runs x m`.
            learned: what the optimizer of the model moves beside the model.
            memory: that of the last step.
        """

    def learned(self, gradients: Tensor) -> tuple[Tensor, ...]:
        """Return what is learned before the first step, for gradients of this shape."""
        return ()

    def memory(self, gradients: Tensor) -> tuple[Tensor, ...]:
        """Return the memory before the first step, for gradients of this shape; NaN stands for nothing yet."""
        return ()


@final
@dataclass(frozen=True)
class Memoryless(Directions):
    """A method that only looks at the gradients.

    Args:
        direction: from the gradients, `runs x m x d`, to the directions, `runs x d`.
    """

    direction: Callable[[Tensor], Tensor]

    def move(self, gradients: Tensor, losses: Tensor, learned: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> Move:
        return Move(self.direction(gradients))


@final
@dataclass(frozen=True)
class GradNorm(Directions):
    r"""Weights that let all tasks train at the same rate: :class:`torchsims.aggregations.GradNorm`, run by run.

    .. math::
        d = \sum_i w_i g_i, \qquad w = m \operatorname{softmax}(p), \qquad
        \min_p \sum_i \lvert \delta_i \rvert, \quad \delta_i = w_i n_i - \bar n \, r_i^\alpha

    - :math:`n_i`: the norm of :math:`g_i`; :math:`\bar n`, the mean of :math:`w_i n_i`, is held constant.
    - :math:`r_i`: :math:`L_i / L_i^0` divided by its mean, held constant. Every step here sees the whole problem, so
      that the first epoch, whose mean loss is :math:`L_i^0`, is the first step.
    - :math:`p`: learned by the optimizer of the model and at its rate, along

    .. math::
        \frac{\partial}{\partial p_k} \sum_i \lvert \delta_i \rvert
        = w_k \Big( \pi_k - \frac{1}{m} \sum_i w_i \pi_i \Big), \qquad \pi_i = \operatorname{sgn}(\delta_i) \, n_i

    Args:
        alpha: :math:`\alpha`.
    """

    alpha: float = 1.5

    def move(self, gradients: Tensor, losses: Tensor, learned: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> Move:
        (p,), (first,) = learned, memory
        first = losses.where(first.isnan(), first)
        rate = losses / first
        norms = torch.linalg.vector_norm(gradients, dim=-1)  # (run, task)
        w = p.shape[-1] * torch.softmax(p, -1)
        target = (w * norms).mean(-1, keepdim=True) * (rate / rate.mean(-1, keepdim=True)) ** self.alpha
        pull = (w * norms - target).sign() * norms
        slope = w * (pull - (w * pull).mean(-1, keepdim=True))
        return Move((w.unsqueeze(-1) * gradients).sum(-2), (slope,), (first,))

    def learned(self, gradients: Tensor) -> tuple[Tensor, ...]:
        return (torch.zeros_like(gradients[..., 0]),)

    def memory(self, gradients: Tensor) -> tuple[Tensor, ...]:
        return (torch.full_like(gradients[..., 0], torch.nan),)


@final
@dataclass(frozen=True)
class DBMTL(Directions):
    r"""Gradients of log losses, all as long as the longest: :class:`torchsims.aggregations.DBMTL`, run by run.

    .. math::
        d = \sum_i \frac{\max_j \lVert \hat g_j \rVert}{\lVert \hat g_i \rVert} \hat g_i, \qquad
        \hat g_i \leftarrow \beta \hat g_i + (1 - \beta) \nabla \ln L_i

    - :math:`\hat g`: running means, which start at the first gradients.

    Args:
        beta: :math:`\beta`.
    """

    transform: ClassVar[Transform] = Log()
    beta: float = 0.9

    def move(self, gradients: Tensor, losses: Tensor, learned: tuple[Tensor, ...], memory: tuple[Tensor, ...]) -> Move:
        (before,) = memory
        means = gradients.where(before.isnan(), self.beta * before + (1 - self.beta) * gradients)
        norms = torch.linalg.vector_norm(means, dim=-1, keepdim=True)
        weights = (norms.amax(-2, keepdim=True) / norms).where(norms > 0, 0)
        return Move((weights * means).sum(-2), (), (means,))

    def memory(self, gradients: Tensor) -> tuple[Tensor, ...]:
        return (torch.full_like(gradients, torch.nan),)
