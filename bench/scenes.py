"""How many scenes a second: python bench/scenes.py.

One thread in this process, then two workers of a data loader, with and without starting them.
"""

import time

import torch
from torch.utils.data import DataLoader

from torchsims.data import Scenes

BATCH, COUNT = 32, 2048


def main() -> None:
    torch.set_num_threads(1)
    scenes = Scenes("train", size=COUNT, tasks=("seg", "depth", "normals", "edges"))
    scenes.batch(range(BATCH))
    start = time.perf_counter()
    for i in range(0, COUNT, BATCH):
        scenes.batch(range(i, i + BATCH))
    print(f"one thread: {COUNT / (time.perf_counter() - start):.0f} images/s at 64 x 64")
    loader = DataLoader(scenes, batch_size=BATCH, num_workers=2, persistent_workers=True)
    for what in ("with starting them", "once they run"):
        start = time.perf_counter()
        count = sum(len(batch["image"]) for batch in loader)
        print(f"two workers, {what}: {count / (time.perf_counter() - start):.0f} images/s at 64 x 64")


if __name__ == "__main__":
    main()
