"""The gradient-level methods of the toy experiments, run by run against `torchsims.aggregations`, hence TorchJD."""

import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

from helpers.points import Point
from torchsims import Aggregated
from torchsims.aggregations import DBMTL, MGDA, Aggregation, CAGrad, FairGrad, GradNorm, NashMTL, PCGrad
from torchsims.methods import Method
from torchsims.problems import Toy
from torchsims.synthetic import GradientMethod, run_rows
from torchsims.synthetic.directions import Stateless
from torchsims.synthetic.methods import METHODS, offset
from torchsims.synthetic.two_tasks import cagrad, fairgrad, mgda, nash_mtl, pcgrad

KINDS = ("any", "conflicting", "nearly parallel")
TASKS = ["a", "b"]
MAKE: dict[str, Callable[[], Aggregation]] = {
    "mgda": MGDA,
    "pcgrad": PCGrad,
    "cagrad": CAGrad,
    "nashmtl": NashMTL,
    "fairgrad": FairGrad,
    "gradnorm": lambda: GradNorm(TASKS, dtype=torch.float64),
    "dbmtl": DBMTL,
}


def _gradients(kind: str, largest: int, seed: int = 0, rows: int = 20) -> Tensor:
    """Return gradients, `rows x 2 x 2`, each task times a power of ten up to ``largest`` either way."""
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, rows, 2, generator=generator, dtype=torch.float64)
    second = {"any": second, "conflicting": 0.1 * second - first, "nearly parallel": first + 1e-4 * second}[kind]
    powers = torch.randint(-largest, largest + 1, (rows, 2, 1), generator=generator)
    return torch.stack([first, second], 1) * 10.0 ** powers.double()


def _one_by_one(make: Callable[[], Aggregation], gradients: Tensor) -> Tensor:
    return torch.stack([make()(row) for row in gradients])


def _directions(name: str) -> GradientMethod:
    method = METHODS[name].make(0.015, offset(0))
    assert isinstance(method, GradientMethod)
    return method


@pytest.mark.parametrize("largest", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("direction", "make"), [(mgda, MGDA), (pcgrad, PCGrad)])
def test_what_needs_no_solver_agrees(
    direction: Callable[[Tensor], Tensor], make: Callable[[], Aggregation], kind: str, largest: int
) -> None:
    gradients = _gradients(kind, largest)
    expected = _one_by_one(make, gradients)
    error = (direction(gradients) - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < 1e-8


@pytest.mark.parametrize("largest", [0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_cagrad_is_as_good_for_the_worse_task_as_the_solver(kind: str, largest: int) -> None:
    # The solver stops at 1e-8 in its objective, which is flat at the minimum: up to 2e-4 in the direction.
    gradients = _gradients(kind, largest)
    found, expected = cagrad(gradients), _one_by_one(CAGrad, gradients)
    counts = expected.norm(dim=-1) > 0  # a gradient below 1e-4 of the other counts as zero, and so do both
    assert torch.equal(found.norm(dim=-1) > 0, counts)
    assert counts.sum() >= 15
    gradients, found, expected = gradients[counts], found[counts], expected[counts]
    mean = gradients.mean(1)
    radius = (found - mean).norm(dim=-1) / mean.norm(dim=-1)
    torch.testing.assert_close(radius, torch.full_like(radius, 0.5), rtol=1e-9, atol=0)
    ours, theirs = ((gradients @ d.unsqueeze(-1)).amin((1, 2)) for d in (found, expected))
    size = gradients.norm(dim=-1).amin(1) * mean.norm(dim=-1)
    assert ((ours - theirs) / size).min() > -1e-12
    error = (found - expected).norm(dim=-1) / expected.norm(dim=-1)
    assert error.max() < 1e-3
    assert error.median() < 1e-6


@pytest.mark.parametrize(
    ("direction", "make", "length"), [(nash_mtl, NashMTL, 1.0), (fairgrad, FairGrad, 2**0.5)], ids=["nash", "fair"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_nash_and_fairgrad_agree(
    direction: Callable[[Tensor], Tensor], make: Callable[[], Aggregation], length: float, kind: str
) -> None:
    gradients = torch.cat([_gradients(kind, 0, rows=12), _gradients(kind, 8, seed=1, rows=12)])
    found = direction(gradients)
    # The equation itself, a_i g_i . d = 1 with a_i |g_i| the same for both, holds for every row ...
    along = (gradients @ found.unsqueeze(-1)).squeeze(-1) / gradients.norm(dim=-1)
    torch.testing.assert_close(along[:, 0], along[:, 1], rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(found.norm(dim=-1), torch.full_like(along[:, 0], length))
    # ... and so does what is found from the Gramian.
    assert ((found - _one_by_one(make, gradients)).norm(dim=-1) < 1e-9 * length).all()


@pytest.mark.parametrize("direction", [mgda, pcgrad, cagrad, nash_mtl, fairgrad])
def test_zero_equal_and_opposite_gradients_give_finite_directions(direction: Callable[[Tensor], Tensor]) -> None:
    g, zero = torch.tensor([3.0, -4.0]).double(), torch.zeros(2).double()
    pairs = [(g, g), (g, -g), (g, -2 * g), (g, zero), (zero, g), (zero, zero)]
    found = direction(torch.stack([torch.stack(pair) for pair in pairs]))
    assert found.isfinite().all()
    assert (found[1].abs() < 1e-12).all()
    assert (found[0] @ g > 0).all()


@pytest.mark.parametrize("direction", [nash_mtl, fairgrad])
def test_nearly_opposite_gradients_keep_the_equation(direction: Callable[[Tensor], Tensor]) -> None:
    gradients = torch.tensor([[[1.0, 1e-7], [-1e3, 1e-4]], [[1.0, 1e-5], [-1.0, 0.0]]]).double()
    found = direction(gradients)
    across = found[:, 1] / found.norm(dim=-1)
    torch.testing.assert_close(across, torch.ones(2).double(), rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["gradnorm", "dbmtl"])
def test_what_keeps_a_state_agrees_step_by_step(name: str) -> None:
    method, modules = _directions(name), [MAKE[name]() for _ in range(20)]
    gradients = _gradients("any", 3)
    parameters, state = method.initial_parameters(gradients), method.initial_state(gradients)
    for step in range(6):
        gradients = _gradients(KINDS[step % 3], 3, seed=step)
        losses = 10.0 ** _gradients("any", 0, seed=50 + step)[..., 0]
        found = method.aggregate(gradients, losses, parameters, state)
        state = found.state
        expected = torch.stack([module(g, at) for module, g, at in zip(modules, gradients, losses, strict=True)])
        torch.testing.assert_close(found.direction, expected, rtol=1e-10, atol=1e-12)
        for slope, p in zip(found.parameter_gradients, parameters, strict=True):
            own = [next(module.parameters()) for module in modules]
            torch.testing.assert_close(slope, torch.stack([q.grad for q in own if q.grad is not None]))
            p -= 1e-2 * slope.sign()
            for row, q in zip(p, own, strict=True):
                q.data.copy_(row)
        for module in modules:
            module.end_epoch()


STARTS = torch.tensor([[-8.5, 7.5], [1.0, -2.0], [5.0, 3.0]]).double()
SCALE = torch.tensor([[1.0, 0.1], [0.1, 1.0], [1.0, 7.0]]).double()


@pytest.mark.parametrize("name", MAKE)
def test_the_runner_and_the_stepper_give_the_same_trajectory(name: str) -> None:
    outcome = run_rows(Toy(), _directions(name), STARTS, scale=SCALE, steps=50, record_every=1)
    for row in (0, 1):
        model = Point(STARTS[row])
        stepper = Aggregated(model, MAKE[name](), outer=partial(Adam, lr=1e-3))
        seen = []
        for _ in range(50):
            seen.append(Toy().losses(model.theta.detach()))
            scale = SCALE[row]
            stepper.step(lambda module, scale=scale: dict(zip(TASKS, module() * scale, strict=True)))
            stepper.end_epoch()
        # The solver of CAGrad stops early; here that moves the path by 1e-8 at most.
        torch.testing.assert_close(outcome.path[:-1, row], torch.stack(seen), rtol=0, atol=1e-7)
        torch.testing.assert_close(outcome.points[row], model.theta.detach(), rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["gradnorm"])  # the one that learns and remembers
def test_compiling_changes_no_path(name: str) -> None:
    method = _directions(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, while it compiles
        fast = run_rows(Toy(), method, STARTS, scale=SCALE, steps=50, record_every=1, compiled=True)
    slow = run_rows(Toy(), method, STARTS, scale=SCALE, steps=50, record_every=1)
    torch.testing.assert_close(fast.path, slow.path, rtol=1e-8, atol=1e-8)


def test_a_run_does_not_see_the_others() -> None:
    for name in MAKE:
        together = run_rows(Toy(), _directions(name), STARTS, scale=SCALE, steps=20)
        alone = run_rows(Toy(), _directions(name), STARTS[1:2], scale=SCALE[1:2], steps=20)
        torch.testing.assert_close(alone.points[0], together.points[1], rtol=1e-9, atol=1e-9)


def test_any_direction_of_gradients_is_a_method() -> None:
    total = Stateless(lambda gradients: gradients.sum(1))
    mean = run_rows(Toy(), METHODS["ew"].make(0.015, offset(0)), STARTS, steps=30)
    torch.testing.assert_close(run_rows(Toy(), total, STARTS, steps=30).points, mean.points, rtol=1e-6, atol=0)


def test_every_method_has_the_passes_of_the_library() -> None:
    for name, method in METHODS.items():
        listed = Method(name.removesuffix("-perturbed")).passes.replace("+ m", "+ 2")
        assert listed.split(" joint")[0] == method.passes
