"""Ray: the numbers of this machine on a cluster of two nodes, whatever dies on the way, and one sentence on bad input.

The cluster is real: two nodes on loopback, each with a core, a raylet and workers of its own.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from helpers.commands import Call, results
from helpers.processes import Command
from helpers.training_cases import checkpoint
from torchsims.sweeps.ray import Ray
from torchsims.training import Execution

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
STEPS = 24 * 4  # of a run
TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a cluster of one node."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # as busy machines need it
        patch.setenv("PYTHONPATH", str(TESTS))  # workers import what is named, from where it is on their machine
        made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        yield made
        made.shutdown()


def comparison(tmp_path: Path) -> list[str]:
    """Return a comparison that takes half a minute, and no time once there is a file ``fast``."""
    model = f"helpers.plug_in:Slow:until={tmp_path / 'fast'}:log={tmp_path / 'steps.txt'}"
    data = ["--data", "helpers.plug_in:Waves", "--model", model, "--epochs", "24", "--batch", "8"]
    return ["compare", *data, "--methods", "ew,gls"]


def on_ray(cluster: Cluster, tmp_path: Path) -> list[str]:
    """Return the comparison on a cluster, with a checkpoint after every step."""
    return [*comparison(tmp_path), "--checkpoint-every", "1", "--on", f"ray:address={cluster.address}"]


def rows_of_this_machine(call: Call, tmp_path: Path) -> Any:
    """Return the table of the comparison, trained here; the steps are not counted."""
    (tmp_path / "fast").touch()
    assert call(*comparison(tmp_path), "--jobs", "1", "--out", tmp_path / "here") == 0
    (tmp_path / "fast").unlink()
    (tmp_path / "steps.txt").unlink()
    return results(tmp_path / "here")["rows"]


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def folders(out: Path) -> list[Path]:
    return sorted(path.parent for path in (out / "runs").glob("*/checkpoint.pt"))


def steps_between(folder: Path) -> bool:
    """Whether the last checkpoint of a run is one inside of an epoch, and not inside of the first."""
    step = checkpoint(folder)["trainer"]["step"]
    return bool(step > 4 and step % 4)


def count_steps(tmp_path: Path) -> list[str]:
    """Return the process of every step that was trained."""
    return (tmp_path / "steps.txt").read_text().split()


def test_a_node_dies_and_its_run_goes_on_elsewhere_bit_for_bit(cluster: Cluster, call: Call, tmp_path: Path) -> None:
    expected = rows_of_this_machine(call, tmp_path)
    out, doomed = tmp_path / "out", cluster.add_node(**NODE)
    command = Command(tmp_path / "command", *on_ray(cluster, tmp_path), "--out", out)
    wait_until(lambda: len(folders(out)) == 2 and all(map(steps_between, folders(out))))
    os.kill(doomed.all_processes["raylet"][0].process.pid, signal.SIGKILL)
    (tmp_path / "fast").touch()
    code, _, errors = command.wait()
    cluster.remove_node(doomed, allow_graceful=False)
    assert code == 0, errors
    assert results(out)["rows"] == expected
    steps = count_steps(tmp_path)
    assert len(set(steps)) == 2  # the process on the other node trained both
    assert 2 * STEPS <= len(steps) <= 2 * STEPS + 2  # from the checkpoint of the last step


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_ends_is_resumed_at_once(
    how: signal.Signals, cluster: Cluster, call: Call, tmp_path: Path
) -> None:
    expected = rows_of_this_machine(call, tmp_path)
    out = tmp_path / "out"
    words = [*on_ray(cluster, tmp_path), "--out", out]
    command = Command(tmp_path / "command", *words)
    wait_until(lambda: any(map(steps_between, folders(out))))
    os.kill(command.pid, how)
    code, _, errors = command.wait()
    assert code == (130 if how is signal.SIGINT else -how), errors
    assert "Traceback" not in errors
    (tmp_path / "fast").touch()
    assert call(*words, "--resume") == 0
    assert results(out)["rows"] == expected
    assert 2 * STEPS <= len(count_steps(tmp_path)) <= 2 * STEPS + 2
    assert not list(out.rglob(".torchsims.token")) + list(out.rglob(".torchsims.status*"))


def test_a_run_that_no_node_can_hold_is_a_warning(cluster: Cluster, tmp_path: Path) -> None:
    executor = Ray(cluster.address, gpus=2)
    execution = Execution(threads=2, processes=8)
    executor.start(tmp_path, execution)
    try:
        assert "has the 16 cores and 2 accelerators of a run now" in executor.notice(execution)
        assert Ray(cpus=1).notice(execution) == ""
    finally:
        executor.stop()


@pytest.mark.parametrize(
    ("on", "sentence"),
    [
        ("ray:address=127.0.0.1:1", "There is no Ray cluster at `127.0.0.1:1`"),
        ("ray:address=ray://127.0.0.1:1", "There is no Ray cluster at `ray://127.0.0.1:1`"),
        ("ray:address=head", "should look like host:6379. Found `head`"),
        ("ray:gpus=-1", "should not be negative. Found `cpus=0:gpus=-1:retries=3`"),
    ],
)
def test_bad_input_is_one_sentence(
    on: str, sentence: str, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*comparison(tmp_path), "--on", on, "--out", tmp_path / "out") == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_without_ray_the_extra_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert call(*comparison(tmp_path), "--on", "ray", "--out", tmp_path / "out") == 2
    assert "pip install 'torchsims[ray]'" in capsys.readouterr().err
