"""The batched runner against a loop over single runs, and the independence of its rows."""

import warnings
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam

from helpers.points import Point
from torchsims import SIMS, merit
from torchsims.problems import F1, F2, Toy
from torchsims.scalarizations import EW, GLS, STCH, LogMerit
from torchsims.synthetic import Outcome, Saddle, run_rows
from torchsims.synthetic.methods import PERTURB, offset
from torchsims.transforms import Identity, Log

# Not the starts of the paper: (0, 0) is symmetric and (9, 9) lies in the ravine where a logarithm has its pole, and
# both amplify the last bit.
STARTS = torch.tensor([[-8.5, 7.5], [1.0, -2.0], [5.0, 3.0], [-7.5, -0.5], [9.0, -1.0]]).double()
SCALE = torch.tensor([[1.0, 0.1], [0.1, 1.0], [1.0, 1.0], [100.0, 1.0], [1.0, 7.0]]).double()
TAU = torch.tensor([0.01, 0.1, 1.0, 0.02, 0.5]).double()
PROX = torch.tensor([0.0, 0.1, 0.0, 0.01, 1e-3]).double()
AUGMENT = torch.tensor([0.0, 0.0, 0.1, 0.01, 0.2]).double()
INNER = torch.tensor([1e-3, 5e-3, 1e-3, 2e-3, 5e-3]).double()


def _single_run(row: int, steps: int) -> tuple[Tensor, list[Tensor]]:
    """Return the end of one run and its unscaled losses: one point, one optimizer per copy, no batch."""
    problem = Toy()
    theta = STARTS[row].clone().requires_grad_()
    challenger = (STARTS[row] + 0.1).clone().requires_grad_()
    outer, inner = Adam([theta], lr=1e-3), Adam([challenger], lr=float(INNER[row]))
    seen = []
    for _ in range(steps):
        losses, losses_there = problem.losses(theta), problem.losses(challenger)
        seen.append(losses.detach())
        h = merit.h(
            losses * SCALE[row],
            losses_there * SCALE[row],
            tau=float(TAU[row]),
            augment=float(AUGMENT[row]),
            prox=float(PROX[row]),
            squared_distance=((theta - challenger) ** 2).sum(),
        )
        outer.zero_grad()
        inner.zero_grad()
        torch.autograd.backward(h)
        assert theta.grad is not None
        theta.grad.neg_()
        outer.step()
        inner.step()
    return theta.detach(), seen


def _batched(steps: int, *, repeats: int = 1, compiled: bool = False) -> Outcome:
    tau, prox, augment, inner_lr = (x.repeat(repeats) for x in (TAU, PROX, AUGMENT, INNER))
    method = Saddle(tau=tau, prox=prox, augment=augment, offset=0.1, inner_lr=inner_lr)
    starts, scale = STARTS.repeat(repeats, 1), SCALE.repeat(repeats, 1)
    return run_rows(Toy(), method, starts, scale=scale, steps=steps, record_every=1, compiled=compiled)


def test_the_runner_matches_a_loop_over_single_runs() -> None:
    outcome = _batched(80)
    for row in range(len(STARTS)):
        end, seen = _single_run(row, 80)
        torch.testing.assert_close(outcome.points[row], end, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(outcome.path[:-1, row], torch.stack(seen), rtol=1e-9, atol=1e-9)


def test_compiling_changes_no_path() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, while it compiles
        fast = _batched(100, repeats=2, compiled=True)  # ten rows, as Fig. 1: its test finds the compiled code on disk
    torch.testing.assert_close(fast.path, _batched(100).path.repeat(1, 2, 1), rtol=1e-8, atol=1e-8)


def test_a_run_does_not_see_the_others() -> None:
    method = Saddle(tau=0.02, offset=0.1, inner_lr=INNER)
    together = run_rows(Toy(), method, STARTS, scale=SCALE, steps=60)
    for row in (0, 3):
        own = Saddle(tau=0.02, offset=0.1, inner_lr=float(INNER[row]))
        alone = run_rows(Toy(), own, STARTS[row : row + 1], scale=SCALE[row : row + 1], steps=60)
        torch.testing.assert_close(alone.points[0], together.points[row], rtol=1e-9, atol=1e-9)


def test_a_power_of_two_changes_no_bit_of_sims() -> None:
    powers = torch.tensor([[1.0, 1.0], [2.0, 1.0], [1.0, 1024.0], [2.0**-10, 4.0]]).double()
    outcome = run_rows(Toy(), Saddle(tau=0.02, offset=0.1), STARTS[:1].expand(4, -1), scale=powers, steps=100)
    assert torch.equal(outcome.points, outcome.points[:1].expand(4, -1))


def test_a_run_that_reaches_the_front_is_over_at_its_first_step_there() -> None:
    problem = F1()
    starts = torch.cat([problem.starts, problem.pareto_set(torch.zeros(1, dtype=torch.float64))])
    free = run_rows(problem, EW(), starts, steps=150, lr=0.1, record_every=1)
    outcome = run_rows(problem, EW(), starts, steps=150, lr=0.1, record_every=1, stop_distance=0.05)
    distance = problem.distance(free.path)
    assert (distance - 0.05).abs().min() > 1e-9  # no tie, which rounding would decide
    near = distance < 0.05
    assert outcome.reached.all()
    assert outcome.steps[-1] == 0
    assert torch.equal(outcome.points[-1], starts[-1])
    assert len(set(outcome.steps.tolist())) > 2
    assert torch.equal(outcome.steps, near.int().argmax(0))
    for row, step in enumerate(outcome.steps.tolist()):
        assert torch.equal(outcome.losses[row], free.path[step, row])
        assert torch.equal(outcome.path[-1, row], outcome.losses[row])
    assert (outcome.distance < 0.05).all()


def test_a_run_that_never_arrives_says_so() -> None:
    outcome = run_rows(Toy(), GLS(), STARTS[:1], steps=20, stop_distance=0.05)
    assert outcome.steps.tolist() == [20]
    assert not outcome.reached.any()


def test_settled_is_the_first_step_with_small_gradients() -> None:
    problem = F1()
    outcome = run_rows(problem, EW(), problem.starts, steps=100, lr=0.1, optimizer=SGD, record_every=1)
    # The gradient of the mean of the two spheres is 2 theta, and every step multiplies theta by 0.8.
    norms = 2 * problem.starts[0].norm() * 0.8 ** torch.arange(101)
    assert outcome.settled[0] == (norms < 0.1).int().argmax()
    never = run_rows(problem, EW(), problem.starts, steps=3, lr=0.1, optimizer=SGD)
    assert never.settled.tolist() == [-1] * 4


def test_foops_is_the_saddle_of_the_losses_themselves() -> None:
    foops, sims = (
        run_rows(F2(), Saddle(tau=1.0, transform=psi, offset=0.1), F2().starts, steps=50) for psi in (Identity(), Log())
    )
    assert not torch.equal(foops.points, sims.points)


def test_a_method_with_a_state_is_not_compiled() -> None:
    with pytest.raises(ValueError, match="should keep no statistics if it is compiled"):
        run_rows(F1(), LogMerit(), F1().starts, steps=1, compiled=True)


def test_a_method_with_a_state_takes_the_steps_that_it_takes_by_itself() -> None:
    """Every row is a run of its own, and the mean of an epoch is closed after its last step."""
    problem, start = F1(), F1().starts[2]
    rows = run_rows(problem, STCH(normalize=True, warmup_epochs=1), problem.starts, steps=7, lr=0.1, epoch=3)
    alone, method = start.clone().requires_grad_(), STCH(normalize=True, warmup_epochs=1)
    optimizer = Adam([alone], lr=0.1)
    for step in range(7):
        optimizer.zero_grad()
        method(problem.losses(alone)).backward()
        optimizer.step()
        if step == 2:
            method.end_epoch()
    torch.testing.assert_close(rows.points[2], alone.detach(), rtol=1e-10, atol=1e-10)


def test_a_preference_of_many_runs_is_that_of_the_stepper() -> None:
    problem, p = F2(), torch.tensor([[4.0, 0.25], [1.0, 1.0]], dtype=torch.float64)
    starts = problem.starts[:2]
    rows = run_rows(problem, Saddle(tau=0.3, inner_lr=0.02, preference=p), starts, steps=20, lr=0.01, optimizer=Adam)
    for i, start in enumerate(starts):
        model = torch.nn.ParameterList([start.clone()])
        chosen = dict(zip("ab", p[i].tolist(), strict=True))
        stepper = SIMS(model, tau=0.3, preference=chosen, outer=partial(Adam, lr=0.01), inner=partial(Adam, lr=0.02))
        for _ in range(20):
            stepper.step(lambda m: dict(zip("ab", problem.losses(m[0]), strict=True)))
        torch.testing.assert_close(rows.points[i], model[0].detach(), rtol=1e-6, atol=1e-6)


def test_any_elementwise_optimizer_works() -> None:
    outcome = run_rows(
        F1(), EW(), F1().starts, steps=200, lr=0.05, optimizer=partial(SGD, momentum=0.5), stop_distance=0.05
    )
    assert outcome.reached.all()


@pytest.mark.parametrize("row", [0, 1])
def test_the_runner_and_the_stepper_give_the_same_trajectory(row: int) -> None:
    steps, seed = 60, 5
    model = Point(STARTS[row])
    stepper = SIMS(
        model,
        tau=float(TAU[row]),
        prox=float(PROX[row]),
        outer=partial(Adam, lr=1e-3),
        inner=partial(Adam, lr=float(INNER[row])),
        perturb=PERTURB,
        seed=seed,
    )
    seen = []
    for _ in range(steps):
        seen.append(Toy().losses(model.theta.detach()))
        stepper.step(lambda module: module() * SCALE[row])
    batched = Saddle(tau=TAU, prox=PROX, offset=offset(seed), inner_lr=INNER)
    outcome = run_rows(Toy(), batched, STARTS, scale=SCALE, steps=steps, record_every=1)
    torch.testing.assert_close(outcome.path[:-1, row], torch.stack(seen), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(outcome.points[row], model.theta.detach(), rtol=1e-9, atol=1e-9)
