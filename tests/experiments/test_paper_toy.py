"""What the paper's synthetic experiments must show, on the commands' own code; docs/synthetic.md has the full runs."""

from collections.abc import Iterator

import pytest

from torchsims.experiments import prox, trajectories, variance
from torchsims.experiments.settings import ProxSettings, TrajectoriesSettings, VarianceSettings
from torchsims.reporting import Advance, Row


@pytest.fixture
def torch_may_warn(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    """Allow the warnings of torch while it compiles."""
    yield
    recwarn.clear()


def _silent(name: str, total: int) -> Advance:
    return lambda done, note="": None


def _number(row: Row, name: str) -> float:
    value = row[name]
    assert isinstance(value, float | int)
    return float(value)


@pytest.mark.usefixtures("torch_may_warn")
def test_sims_reaches_the_front_from_every_start_under_both_scalings() -> None:
    report = trajectories.run(TrajectoriesSettings(methods=("sims",)), _silent)
    assert [row["reached"] for row in report.rows] == [True] * 10
    (summary,) = report.details["Summary"]
    assert _number(summary, "gap_between_scalings") < 0.05


@pytest.mark.usefixtures("torch_may_warn")
def test_rescaling_moves_ew_and_not_sims_or_gls() -> None:
    report = variance.run(VarianceSettings(methods=("ew", "gls", "sims"), seeds=1, steps=14_000), _silent)
    ew, gls, sims = (_number(row, "var_mean") for row in report.rows)
    assert ew == pytest.approx(57.2, abs=0.5)
    assert gls <= 1e-6
    assert sims <= 1e-12


def test_a_large_prox_settles_in_less_than_half_the_steps() -> None:
    # The rank of the final distance needs all 20 000 steps: docs/synthetic.md.
    report = prox.run(ProxSettings(steps=250, values=(0.0, 0.1), compiled=False), _silent)
    none, large = report.rows
    assert _number(large, "mean_first_step") < _number(none, "mean_first_step") / 2
    assert _number(none, "mean_rank") < _number(large, "mean_rank")
