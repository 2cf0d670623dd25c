"""One shared test over every problem, and each against an independent source where one exists."""

import inspect
from typing import Any, cast

import cocoex
import pytest
import torch
from torch import Tensor

from torchsims import problems
from torchsims.problems import F1, F2, F11, Problem, Toy
from torchsims.problems._base import non_dominated


def _all_problems() -> list[Problem]:
    named = [getattr(problems, name) for name in problems.__all__]
    found: list[Problem] = [cast("Any", p)() for p in named if inspect.isclass(p) and not inspect.isabstract(p)]
    return [*found, Toy("cited"), F2(oscillation=True), F11(conditioning=10.0, oscillation=True)]


@pytest.fixture(params=_all_problems(), ids=lambda p: type(p).__name__)
def problem(request: pytest.FixtureRequest) -> Problem:
    value: Problem = request.param
    return value


def _cloud(problem: Problem, n: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.empty(n, problem.dimension, dtype=torch.float64).uniform_(-5, 5, generator=generator)


def test_losses_are_vectorised_positive_and_differentiable(problem: Problem) -> None:
    points = torch.cat([problem.starts, _cloud(problem, 24 - len(problem.starts))]).requires_grad_()
    losses = problem.losses(points)
    assert losses.shape == (len(points), problem.tasks)
    torch.testing.assert_close(losses, torch.stack([problem.losses(p) for p in points]), rtol=1e-13, atol=1e-13)
    assert torch.equal(problem.losses(points.reshape(2, -1, problem.dimension)).flatten(0, 1), losses)
    assert (losses > 0).all()
    for task in losses.unbind(-1):
        (gradient,) = torch.autograd.grad(task.sum(), points, retain_graph=True)
        assert gradient.isfinite().all()
        assert (gradient != 0).any(-1).all()  # no start is a fixed point
    assert problem.losses(points.detach().float()).dtype == torch.float32


def test_the_starts_are_off_the_front(problem: Problem) -> None:
    assert problem.starts.shape[1] == problem.dimension
    assert problem.starts.dtype == torch.float64
    off = problem.distance(problem.losses(problem.starts)) > 0.05
    assert off[1:].all()
    assert off[0] or isinstance(problem, F2)  # the paper starts F2 at (-2, 2), 8e-5 from its front


def test_no_point_of_the_front_is_dominated(problem: Problem) -> None:
    front = problem.front()
    assert front.dtype == torch.float64
    assert (front[1:, 0] >= front[:-1, 0]).all()
    assert (front[1:, 1] <= front[:-1, 1]).all()
    cloud = problem.losses(_cloud(problem, 20_000))
    below = (cloud.unsqueeze(1) < front[::50].unsqueeze(0)).all(-1).any(1)
    if isinstance(problem, Toy) or getattr(problem, "oscillation", False):  # the front of a grid: near, not exact
        assert (problem.distance(cloud[below]) < 0.01 * front.amax()).all()
    else:
        assert not below.any()


def test_the_front_has_distance_zero(problem: Problem) -> None:
    front = problem.front()
    front = front[:: len(front) // 50]
    assert (problem.distance(front) <= 1e-9 * front.amax(-1)).all()


def test_distance_is_the_distance_to_the_nearest_point(problem: Problem) -> None:
    losses = problem.losses(_cloud(problem, 10))
    front = problem.front()
    nearest = (front - losses.unsqueeze(1)).norm(dim=-1).amin(-1)
    knots_apart = (front[1:] - front[:-1]).norm(dim=-1).max()
    assert (problem.distance(losses) <= nearest * (1 + 1e-12)).all()
    assert (problem.distance(losses) >= nearest - knots_apart).all()


def test_the_toy_front_is_the_papers_grid() -> None:
    front = Toy().front()
    assert len(front) == 3250
    torch.testing.assert_close(front[0], torch.tensor([10.01, 29.64]).double(), atol=0.005, rtol=0)
    torch.testing.assert_close(front[-1], torch.tensor([29.64, 10.01]).double(), atol=0.005, rtol=0)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("instance", [1, 2, 3])
def test_sphere_and_ellipsoid_agree_with_coco(number: int, instance: int) -> None:
    oracle = cocoex.BareProblem("bbob", number, 2, instance)
    optimum = torch.tensor(oracle.best_parameter(), dtype=torch.float64)
    ours = F2(oscillation=True)  # a sphere and an ellipsoid
    task = number - 1
    centre = torch.tensor(ours.centres[task], dtype=torch.float64)
    offsets = _cloud(ours, 50)
    theirs = torch.tensor([oracle((optimum + z).tolist()) - oracle.best_value() for z in offsets])
    mine = ours.losses(centre + offsets)[:, task] - ours.shift
    torch.testing.assert_close(mine, theirs.double(), rtol=1e-6, atol=1e-6)


def test_the_pareto_set_of_two_spheres_is_the_segment_between_them() -> None:
    points = F1().pareto_set(torch.linspace(-3, 3, 7, dtype=torch.float64))
    torch.testing.assert_close(points[:, 0], points[:, 1])
    assert F1().distance(F1().losses(points)).max() < 1e-12


def test_non_dominated_keeps_what_no_row_dominates() -> None:
    rows = torch.rand(200, 2, generator=torch.Generator().manual_seed(1))
    worse = (rows.unsqueeze(1) >= rows.unsqueeze(0)).all(-1) & (rows.unsqueeze(1) > rows.unsqueeze(0)).any(-1)
    expected = rows[~worse.any(1)]
    assert torch.equal(non_dominated(rows), expected[expected[:, 0].argsort()])


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: cast("Any", Toy)("other"),
            'Parameter `variant` should be "paper" or "cited". Found `variant = \'other\'`.',
        ),
        (lambda: F2(conditioning=0.1), "Parameter `conditioning` should be at least 1. Found `conditioning = 0.1`."),
        (lambda: F2(shift=0.0), "Parameter `shift` should be positive. Found `shift = 0.0`."),
        (lambda: problems.ZDT3(shift=0.5), "Parameter `shift` should be above 0.8. Found `shift = 0.5`."),
    ],
)
def test_wrong_options_are_one_clear_sentence(build: object, sentence: str) -> None:
    assert callable(build)
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole sentence is compared
        build()
    assert str(error.value) == sentence
