"""COSMOS: one model for all preferences, which it takes as an input."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.distributions import Dirichlet
from torch.nn.functional import cosine_similarity
from torch.optim import Adam

from torchsims.problems import Problem

ALPHA = 1.2  # of the Dirichlet distribution of the rays, and the weight of the cosine: MultiMNIST in the authors' code
PENALTY = 2.0
RAYS = 16  # drawn per step; the paper draws one per batch
WIDTH = 64


def cosmos_objective(losses: Tensor, rays: Tensor, penalty: float = PENALTY) -> Tensor:
    r"""Return the objective of COSMOS (Ruchte and Grabocka, ICDM 2021), `...`, for losses and rays, `... x m`.

    .. math::
        \sum_i r_i L_i - \lambda \cos(r, L)

    - :math:`r` (``rays``): a point of the simplex, drawn anew for every batch and given to the model as an input. Both
      terms read it, and against each other: as a weight, more of it asks for a smaller loss, and as the ray that the
      losses should lie on, for a larger one.
    - :math:`\lambda` (``penalty``): has a unit where the losses have one.

    Example:
        >>> cosmos_objective(torch.tensor([3.0, 4.0]), torch.tensor([0.6, 0.8]))
        tensor(3.)
    """
    return (rays * losses).sum(-1) - penalty * cosine_similarity(rays, losses, dim=-1)


def run_cosmos(problem: Problem, starts: Tensor, rays: Tensor, scale: Tensor, *, steps: int, lr: float) -> Tensor:
    """Return the unscaled losses of one model per run for all rays, `run x ray x m`.

    A model is a perceptron with two hidden layers from a ray to a point, and begins near its start for every ray. All
    models begin with the same numbers, see the same rays and advance as one tensor.

    Args:
        problem: problem to minimise.
        starts: one row per run, `run x d`.
        rays: points of the simplex to evaluate, `ray x m`.
        scale: factors of the losses before the method sees them, `run x m`.
        steps: number of updates.
        lr: learning rate of Adam.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = (problem.tasks, WIDTH, WIDTH, starts.shape[-1])
    layers = []
    for before, after in pairwise(sizes):
        drawn = torch.rand(before + 1, after, generator=generator, dtype=starts.dtype) * 2 - 1
        small = 0.01 if after == sizes[-1] else 1.0
        layers.append((small * drawn / before**0.5).repeat(len(starts), 1, 1).requires_grad_())

    def losses(rays: Tensor) -> Tensor:  # (run, ray, m)
        x = rays.expand(len(starts), -1, -1)
        for i, layer in enumerate(layers):
            x = torch.baddbmm(layer[:, -1:], x if i == 0 else x.relu(), layer[:, :-1])
        return problem.losses(starts.unsqueeze(1) + x)

    optimizer = Adam(layers, lr=lr)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        batches = Dirichlet(torch.full((problem.tasks,), ALPHA, dtype=starts.dtype)).sample((steps, RAYS))
    for batch in batches:
        objective = cosmos_objective(losses(batch) * scale.unsqueeze(1), batch).mean(1).sum()
        for layer, gradient in zip(layers, torch.autograd.grad(objective, layers), strict=True):
            layer.grad = gradient
        optimizer.step()
    return losses(rays).detach()
