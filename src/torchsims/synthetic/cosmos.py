"""COSMOS: one model for all preferences, which it takes as an input."""

import torch
from torch import Tensor, nn
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
    """Return the unscaled losses of one model per start and scaling for all rays, `run x ray x m`.

    A model is a perceptron from a ray to a point, and begins near its start for every ray.

    Args:
        problem: problem to minimise.
        starts: one row per run, `run x d`.
        rays: points of the simplex, `ray x m`.
        scale: factors of the losses before the method sees them, `run x m`.
        steps: number of updates.
        lr: learning rate of Adam.
    """
    found = []
    for start, factors in zip(starts, scale, strict=True):
        with torch.random.fork_rng(devices=[]):
            model = _perceptron(rays.shape[-1], len(start), torch.Generator().manual_seed(0)).to(start)
            torch.manual_seed(0)
            drawn = Dirichlet(torch.full((problem.tasks,), ALPHA, dtype=start.dtype)).sample((steps, RAYS))
        optimizer = Adam(model.parameters(), lr=lr)
        for batch in drawn:
            optimizer.zero_grad()
            cosmos_objective(problem.losses(start + model(batch)) * factors, batch).mean().backward()
            optimizer.step()
        with torch.no_grad():
            found.append(problem.losses(start + model(rays)))
    return torch.stack(found)


def _perceptron(inputs: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    layers = [nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, outputs)]
    for layer, gain in zip(layers, (1.0, 1.0, 0.01), strict=True):
        bound = gain / layer.in_features**0.5
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
