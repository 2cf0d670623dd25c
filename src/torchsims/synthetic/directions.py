"""Gradient-level methods for many runs at once: what the runner needs of one, and those with a state."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias, final

import torch
from torch import Tensor

from torchsims.transforms import Identity, Log, Transform

Tensors: TypeAlias = tuple[Tensor, ...]


class Aggregate(NamedTuple):
    """What a method computes from the gradients of one step."""

    direction: Tensor  # to descend along, `runs x d`
    parameter_gradients: Tensors = ()  # of the method's own parameters, as :meth:`GradientMethod.initial_parameters`
    state: Tensors = ()  # for the next step, as :meth:`GradientMethod.initial_state`


class GradientMethod(ABC):
    """A method that turns the gradients of the tasks into one direction per run."""

    transform: ClassVar[Transform] = Identity()
    """The function of the losses whose gradients the method takes."""

    @abstractmethod
    def aggregate(self, gradients: Tensor, losses: Tensor, parameters: Tensors, state: Tensors) -> Aggregate:
        """Return the direction of every run and the next state; a pure function.

        Args:
            gradients: gradients per task, `runs x m x d`.
            losses: scaled losses, `runs x m`.
            parameters: what the optimizer of the model moves beside the model.
            state: state after the previous step.
        """

    def initial_parameters(self, gradients: Tensor) -> Tensors:
        """Return the parameters of the method before the first step, for gradients of this shape."""
        return ()

    def initial_state(self, gradients: Tensor) -> Tensors:
        """Return the state before the first step, for gradients of this shape; NaN where there is none yet."""
        return ()


@final
@dataclass(frozen=True)
class Stateless(GradientMethod):
    """A method that depends on the gradients of the current step only."""

    direction: Callable[[Tensor], Tensor]  # from the gradients, `runs x m x d`, to the directions, `runs x d`

    def aggregate(self, gradients: Tensor, losses: Tensor, parameters: Tensors, state: Tensors) -> Aggregate:
        return Aggregate(self.direction(gradients))


@final
@dataclass(frozen=True)
class GradNorm(GradientMethod):
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
    """

    alpha: float = 1.5

    def aggregate(self, gradients: Tensor, losses: Tensor, parameters: Tensors, state: Tensors) -> Aggregate:
        (p,), (first,) = parameters, state
        first = losses.where(first.isnan(), first)
        rate = losses / first
        norms = torch.linalg.vector_norm(gradients, dim=-1)  # (run, task)
        w = p.shape[-1] * torch.softmax(p, -1)
        target = (w * norms).mean(-1, keepdim=True) * (rate / rate.mean(-1, keepdim=True)) ** self.alpha
        pull = (w * norms - target).sign() * norms
        slope = w * (pull - (w * pull).mean(-1, keepdim=True))
        return Aggregate((w.unsqueeze(-1) * gradients).sum(-2), (slope,), (first,))

    def initial_parameters(self, gradients: Tensor) -> Tensors:
        return (torch.zeros_like(gradients[..., 0]),)

    def initial_state(self, gradients: Tensor) -> Tensors:
        return (torch.full_like(gradients[..., 0], torch.nan),)


@final
@dataclass(frozen=True)
class DBMTL(GradientMethod):
    r"""Gradients of log losses, all as long as the longest: :class:`torchsims.aggregations.DBMTL`, run by run.

    .. math::
        d = \sum_i \frac{\max_j \lVert \hat g_j \rVert}{\lVert \hat g_i \rVert} \hat g_i, \qquad
        \hat g_i \leftarrow \beta \hat g_i + (1 - \beta) \nabla \ln L_i

    - :math:`\hat g`: running means, which start at the first gradients.
    """

    transform: ClassVar[Transform] = Log()
    beta: float = 0.9

    def aggregate(self, gradients: Tensor, losses: Tensor, parameters: Tensors, state: Tensors) -> Aggregate:
        (before,) = state
        means = gradients.where(before.isnan(), self.beta * before + (1 - self.beta) * gradients)
        norms = torch.linalg.vector_norm(means, dim=-1, keepdim=True)
        weights = (norms.amax(-2, keepdim=True) / norms).where(norms > 0, 0)
        return Aggregate((weights * means).sum(-2), (), (means,))

    def initial_state(self, gradients: Tensor) -> Tensors:
        return (torch.full_like(gradients, torch.nan),)
