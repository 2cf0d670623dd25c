"""Speed of the rendered scenes: python bench/scenes.py.

Prints images per second in this process with one thread, then in two workers of a data loader, with and without the
time that the workers take to start. Then trains one epoch, and fails if loading takes 10 % of the step time or more.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

from torchsims.data import Scenes
from torchsims.training import RunConfig, train

BATCH, COUNT = 32, 2048
LARGEST_SHARE = 0.1


def measure_rendering() -> None:
    """Print how many images are rendered per second."""
    scenes = Scenes("train", size=COUNT, tasks=("seg", "depth", "normals", "edges"))
    scenes.batch(range(BATCH))
    start = time.perf_counter()
    for i in range(0, COUNT, BATCH):
        scenes.batch(range(i, i + BATCH))
    print(f"one thread: {COUNT / (time.perf_counter() - start):.0f} images/s at 64 x 64")
    loader = DataLoader(scenes, batch_size=BATCH, num_workers=2, persistent_workers=True)
    for what in ("start included", "once they run"):
        start = time.perf_counter()
        count = sum(len(batch["image"]) for batch in loader)
        print(f"two workers, {what}: {count / (time.perf_counter() - start):.0f} images/s at 64 x 64")


def loading_share() -> float:
    """Return the time that loading takes, relative to the steps of EW, as `torchsims train --profile` measures it."""
    with tempfile.TemporaryDirectory() as folder:
        run = train(RunConfig("scenes:images=64", "ew", "hps", epochs=1), Path(folder))
    return run.seconds["data"] / run.seconds["step"]


def main() -> None:
    torch.set_num_threads(1)
    measure_rendering()
    share = loading_share()
    print(f"loading: {share:.1%} of the step time of EW, at most {LARGEST_SHARE:.0%} expected")
    if share >= LARGEST_SHARE:
        sys.exit("Loading should take less time.")


if __name__ == "__main__":
    main()
