"""What a run will cost: counts equal those of torch and of the passes, and nothing is written."""

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers.commands import Call, results
from helpers.training_cases import DATA
from torchsims.training import Cost, Device, complete_config, measure_cost, resolve
from torchsims.training.resolution import Resolved


def resolved(method: str, **changes: object) -> Resolved:
    given = {"data": DATA, "model": "hps:width=8", "epochs": 3, "batch": 4, "method": method, **changes}
    return resolve(complete_config(given))


def cost(method: str, **changes: object) -> Cost:
    return measure_cost(resolved(method, **changes), steps=1)


def flops_of_passes(forward_only: bool) -> int:
    """Return what torch counts for one pass over a batch."""
    found = resolved("ew")
    model, batch = found.build_model(), found.workload.split("train").batch([0, 1, 2, 3])  # type: ignore[attr-defined]
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(not forward_only):
        losses = found.workload.losses(found.workload.predict(model, batch), batch)
        if not forward_only:
            sum(losses.total.values()).backward()  # type: ignore[union-attr]
    return int(counter.get_total_flops())


def test_operations_are_those_of_the_passes() -> None:
    both, forward = flops_of_passes(forward_only=False), flops_of_passes(forward_only=True)
    assert cost("ew").flops == both
    assert cost("sims").flops == 2 * both
    assert cost("sims:evaluation=sequential").flops == 2 * both + forward
    assert cost("famo").flops == both + forward
    assert both < cost("mgda:every=2").flops < cost("mgda").flops  # a step with a gradient per task, and one without


def test_memory_holds_parameters_gradients_and_moments_and_grows_with_the_batch() -> None:
    model = resolved("ew").build_model()
    parameters = sum(p.numel() * p.element_size() for p in model.parameters())
    small, large = cost("ew"), cost("ew", batch=8)
    assert small.peak > 4 * parameters
    assert large.peak > small.peak
    assert large.moved > small.moved
    assert cost("sims").peak > small.peak + 3 * parameters  # a copy, its gradients and its moments


def test_the_steps_are_those_of_the_run_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = resolved("gls")
    assert measure_cost(found, steps=2).steps == 3 * (found.workload.items("train") // 4)
    assert not list(tmp_path.iterdir())


def test_another_device_is_bound_by_its_operations_or_its_memory() -> None:
    each = Cost("EW", "1 + 1", steps=10, seconds_per_step=1.0, evaluation=9.0, flops=1e12, moved=1e9, peak=0)
    assert each.seconds_on(Device(tflops=1.0, gigabytes_per_second=1e6, utilisation=0.5)) == pytest.approx(20)
    assert each.seconds_on(Device(tflops=1e6, gigabytes_per_second=1.0, utilisation=0.5)) == pytest.approx(20)
    with pytest.raises(ValueError, match="`utilisation` should be in"):
        Device(1.0, 1.0, 2.0)


def test_the_command_prints_a_row_per_method(call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", DATA, "--model", "hps:width=8", "--epochs", "2", "--batch", "4", "--methods", "ew,gls"]
    out = tmp_path / "plan"
    assert call("plan", *words, "--seeds", "3", "--steps", "1", "--tflops", "1", "--bandwidth", "10", "--out", out) == 0
    assert [(row["method"], row["runs"]) for row in results(out)["rows"]] == [("EW", 3), ("GLS", 3)]
    output = capsys.readouterr().out
    assert "6 runs take about" in output
    assert "Estimated, not measured" in output
    assert call("plan", *words, "--tflops", "1", "--out", tmp_path / "other") == 2
    assert "together" in capsys.readouterr().err
