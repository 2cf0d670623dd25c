"""What all tests share.

One thread a test process: the models are small, and processes that share two cores wait for each other's threads.
"""

import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, here and in the processes that tests start
# torch finds compiled code again by its graph, not by the instructions that it was made for.
os.environ.setdefault("TORCH_COMPILE_CACHE_KEY_TAG", os.environ.get("ATEN_CPU_CAPABILITY", ""))

LIGHTNING_WARNINGS = (
    r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning",  # of torch 2.13 about Lightning 2.6
    r"ignore:The '.*_dataloader' does not have many workers:UserWarning",  # on a machine with many cores
    r"ignore:The `srun` command is available on your system:UserWarning",  # on a machine with Slurm
    r"ignore:Checkpoint directory .* exists and is not empty:UserWarning",  # where a run goes on
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests and examples of Lightning pass in spite of warnings that are harmless."""
    for item in items:
        if "lightning" in item.nodeid:
            for warning in LIGHTNING_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command line in this process; return its exit code."""
    from torchsims import cli

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["torchsims", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert isinstance(end.value.code, int)
        return end.value.code

    return run


@pytest.fixture(scope="session", autouse=True)
def scenes_rendered_once() -> Iterator[None]:
    """Render the same scenes once in a process: most training runs of the tests share them."""
    from torchsims.workloads import scenes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenes, "_render", lru_cache(maxsize=None)(scenes._render.__wrapped__))
        yield
