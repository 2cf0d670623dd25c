"""Where preferences end: monotone and independent of units for SIMS and LogMerit, with controls that are neither."""

import pytest
import torch
import torchjd.scalarization as jds

from torchsims.problems import ZDT2, TwoPoints
from torchsims.scalarizations import PBI
from torchsims.synthetic import Saddle, run_rows
from torchsims.synthetic.cosmos import cosmos_objective, run_cosmos
from torchsims.synthetic.fronts import fan, fan_row, run_fan

OURS, OTHERS = ("sims", "logmerit"), ("ew", "stch", "pbi")
FAN = fan(3, 16.0)


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize("floor", [0.5, 0.05, 0.005])
def test_ours_are_monotone_and_a_factor_of_1000_moves_nothing(method: str, floor: float) -> None:
    problem = TwoPoints(shift=floor)
    ends = run_fan(problem, method, FAN, tau=0.1, steps=200)
    row = fan_row("toy", method, problem.front(), ends)
    assert row["reversed"] == 0
    assert row["moved"] < 1e-5  # type: ignore[operator]
    assert (ends[..., -1, 0] - ends[..., 0, 0] > 0.4).all()  # of a range of 1


@pytest.mark.parametrize("method", OTHERS)
def test_the_factor_moves_what_depends_on_units(method: str) -> None:
    """Negative control."""
    problem = TwoPoints(shift=0.05)
    row = fan_row("toy", method, problem.front(), run_fan(problem, method, FAN, tau=0.1, steps=200))
    assert row["moved"] > 0.3  # type: ignore[operator]
    assert row["volume x1000"] < 0.8 * row["volume"]  # type: ignore[operator]


def test_a_power_of_two_changes_no_bit() -> None:
    problem = TwoPoints(shift=0.05)
    starts, p = problem.starts.repeat(2, 1), FAN[0]
    scale = torch.tensor([[1.0, 1.0], [1024.0, 2.0**-20]]).double().repeat_interleave(len(problem.starts), 0)
    saddle = Saddle(tau=0.1, inner_lr=0.02, preference=p)
    plain, scaled = run_rows(problem, saddle, starts, scale=scale, steps=100, lr=0.01).points.chunk(2)
    assert torch.equal(plain, scaled)


def test_a_weighted_sum_ends_at_the_ends_of_a_concave_front_and_ours_does_not() -> None:
    problem, rays = ZDT2(), fan(3, 4.0)
    inner = {name: run_fan(problem, name, rays, tau=0.1, steps=250)[0, :, :, 0] for name in ("logmerit", "ew")}
    between = {name: int(((x > 1.1) & (x < 1.9)).sum()) for name, x in inner.items()}
    assert between["ew"] == 0
    assert between["logmerit"] > 0


def test_reversed_counts_both_tasks_of_neighbours() -> None:
    front = TwoPoints(shift=0.5).front()
    good = torch.tensor([[0.5, 1.5], [0.75, 0.75], [1.5, 0.5]]).double().expand(2, 1, 3, 2)
    assert fan_row("toy", "sims", front, good)["reversed"] == 0
    backwards = fan_row("toy", "sims", front, good.flip(2))
    assert (backwards["reversed"], backwards["of"]) == (4, 4)
    assert backwards["volume"] == pytest.approx(fan_row("toy", "sims", front, good)["volume"])


def test_pbi_is_that_of_torchjd_with_inverse_preferences_as_its_direction() -> None:
    """TorchJD adds 1e-12 under the root."""
    generator = torch.Generator().manual_seed(0)
    losses = 5 * torch.rand(20, 3, generator=generator, dtype=torch.float64)
    p, z = torch.tensor([2.0, 0.5, 3.0]).double(), torch.tensor([0.1, -1.0, 0.0]).double()
    ours = PBI(2.0, ideal=z.tolist(), preference=dict(zip("abc", p.tolist(), strict=True)), tasks=list("abc"))
    theirs = jds.PBI(2.0, 1 / p, z)
    torch.testing.assert_close(ours(losses), torch.stack([theirs(row) for row in losses]), rtol=1e-9, atol=1e-9)


def test_pbi_on_its_ray_has_a_finite_gradient() -> None:
    losses = torch.tensor([1.0, 4.0], requires_grad=True)
    PBI(preference={"a": 4.0, "b": 1.0})(losses).backward()
    assert losses.grad is not None
    torch.testing.assert_close(losses.grad, torch.tensor([1.0, 4.0]) / 17**0.5)


def test_the_objective_of_cosmos_is_that_of_torchjd() -> None:
    generator = torch.Generator().manual_seed(0)
    losses, rays = (torch.rand(20, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    theirs = [jds.COSMOS(2.0, ray)(row) for row, ray in zip(losses, rays, strict=True)]
    torch.testing.assert_close(cosmos_objective(losses, rays, 2.0), torch.stack(theirs))


def test_cosmos_learns_one_model_for_all_rays_and_leaves_the_global_generator_alone() -> None:
    problem, before = TwoPoints(shift=0.5), torch.get_rng_state()
    rays = torch.tensor([[0.3, 0.7], [0.5, 0.5], [0.7, 0.3]]).double()
    one = torch.ones(1, 2).double()
    ends = run_cosmos(problem, problem.starts[:1], rays, one, steps=300, lr=0.01)
    assert ends.shape == (1, 3, 2)
    assert (ends[0, :, 0].diff() > 0).all()  # a ray towards a loss has more of it
    assert float(problem.distance(ends).amax()) < 0.1
    assert torch.equal(torch.get_rng_state(), before)
