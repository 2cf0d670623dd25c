"""Draw what runs of `bench/nyuv2.py` predict for photographs of NYUv2's test split: one picture per photograph.

    python bench/nyuv2_pictures.py data/nyuv2_96x128 docs/nyuv2 --frames 66 132 --runs runs/nyuv2/methods/ew_seed=1 ...

Writes `docs/nyuv2-66.png` and so on: the photograph and its labels, and under them one row per run.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import torchsims
from torchsims.data.folders import NYUv2
from torchsims.reporting._pictures import predictions
from torchsims.sweeps import find_runs
from torchsims.training import Run


def with_frames(folder: Path, frames: NYUv2, numbers: list[int]) -> Run:
    """Return a run with photographs, their labels and its predictions as samples."""
    (run,) = find_runs([folder])
    predictor = torchsims.load(folder)
    items = [frames[number] for number in numbers]
    samples = {"image": np.stack([item["image"].numpy() for item in items])}
    for task in ("seg", "depth", "normals"):
        samples[f"truth/{task}"] = np.stack([item[task].numpy() for item in items])
    found = [predictor.predict((255 * image.transpose(1, 2, 0)).round().astype(np.uint8)) for image in samples["image"]]
    samples |= {f"prediction/{task}": np.stack([each[task] for each in found]) for task in found[0]}
    return replace(run, samples=samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", help="how the names of the pictures begin")
    parser.add_argument("--frames", type=int, nargs="+", required=True)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    arguments = parser.parse_args()
    frames = NYUv2(arguments.data, "val")
    runs = [with_frames(folder, frames, arguments.frames) for folder in arguments.runs]
    for place, number in enumerate(arguments.frames):
        predictions(runs, place).savefig(f"{arguments.out}-{number}.png", dpi=150)


if __name__ == "__main__":
    main()
