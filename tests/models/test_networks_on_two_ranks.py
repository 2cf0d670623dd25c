"""Two ranks take the steps that one process takes, with networks of transformers."""

from typing import Any

import pytest
import torch

from helpers import small_sam2, small_swin
from helpers.ranks import Job, run_ranks

WAYS = {
    "lora": ("ddp", "sequential", "lora"),
    "multilora": ("plain", "joint", "multilora"),
    "mtsam": ("ddp", "sequential", "mtsam"),
}


@pytest.fixture(scope="module")
def results() -> dict[str, list[Any]]:
    jobs: dict[str, Job] = {adapter: (small_sam2.on_rank, way) for adapter, way in WAYS.items()}
    return run_ranks(jobs | {name: (small_swin.on_rank, (name,)) for name in small_swin.NAMES})


@pytest.mark.parametrize("adapter", WAYS)
def test_two_processes_are_one_with_sam2(adapter: str, results: dict[str, list[Any]]) -> None:
    losses, predictions = small_sam2.train(small_sam2.make_model(adapter=adapter), slice(None))
    for result in results[adapter]:
        assert not isinstance(result, str), result
        for expected, found in zip(losses, result[0], strict=True):
            assert {k: float(v) for k, v in found.items()} == pytest.approx(
                {k: float(v) for k, v in expected.items()}, rel=1e-9
            )
        for task, expected in predictions.items():
            torch.testing.assert_close(result[1][task], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", small_swin.NAMES)
def test_two_processes_are_one_with_swin_transformers(name: str, results: dict[str, list[Any]]) -> None:
    expected = small_swin.run_steps(small_swin.make(name), slice(None))
    for found in results[name]:
        assert found == pytest.approx(expected, rel=1e-9)
