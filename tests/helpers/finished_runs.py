"""Synthetic runs: curves, metrics and predictions for the tests of reports."""

from collections.abc import Sequence

import numpy as np
import torch

from torchsims.data import Scenes
from torchsims.training.config import RunConfig
from torchsims.training.run import History, Run

METRICS = {
    "seg": {"miou": True, "pixel_accuracy": True},
    "depth": {"abs_err": False, "rel_err": False},
    "normals": {"mean": False, "within_11.25": True},
    "edges": {"ods_f": True},
}
TYPICAL = {
    "miou": 0.6,
    "pixel_accuracy": 0.8,
    "abs_err": 0.4,
    "rel_err": 0.15,
    "mean": 24.0,
    "within_11.25": 0.4,
    "ods_f": 0.7,
}


def finished_run(label: str, seed: int, epochs: int = 10, ends: int | None = None, pictures: bool = True) -> Run:
    """Return a run of ``epochs`` epochs that diverges after ``ends`` of them."""
    rng = np.random.default_rng((seed, *label.encode()))
    skill = 1 + 0.1 * rng.standard_normal()
    ends = epochs if ends is None else ends
    epoch = np.arange(1, epochs + 1)

    def diverged(values: np.ndarray) -> list[float]:
        return [float(v) if i < ends else np.nan for i, v in enumerate(values * rng.uniform(0.97, 1.03, epochs))]

    history = History(
        losses={task: diverged(10.0**i * skill / epoch**0.7) for i, task in enumerate(METRICS)},
        weights={task: diverged(epoch**0.7 / 10.0**i / skill) for i, task in enumerate(METRICS)},
        influence={task: diverged(np.full(epochs, skill / len(METRICS))) for task in METRICS},
        merit=diverged(np.full(epochs, 1.4)),
        validation={
            task: {name: diverged(TYPICAL[name] * (1 - 0.5 * (1 if up else -1) / epoch)) for name, up in of.items()}
            for task, of in METRICS.items()
        },
    )
    metrics = {task: {name: values[-1] for name, values in of.items()} for task, of in history.validation.items()}
    samples = _samples(rng, ends == epochs) if pictures else None
    return Run(label, RunConfig(seed=seed), metrics, METRICS, history, samples=samples)


def finished_runs(labels: Sequence[str], seeds: int = 3, pictures: bool = True) -> list[Run]:
    """Return runs of every label; the last run of the second label diverges."""
    return [
        finished_run(label, seed, ends=4 if (i, seed) == (1, seeds - 1) else None, pictures=pictures and seed == 0)
        for i, label in enumerate(labels)
        for seed in range(seeds)
    ]


def _samples(rng: np.random.Generator, works: bool) -> dict[str, np.ndarray]:
    tasks = tuple(METRICS)
    scenes = Scenes("test", size=2, resolution=(48, 64), tasks=tasks).batch([0, 1])
    truth = {name: value.numpy() for name, value in scenes.items()}
    depth, normals = truth["depth"], truth["normals"]
    noise = torch.from_numpy(rng.standard_normal(normals.shape)).float().numpy()
    return {
        "image": truth["image"],
        **{f"truth/{task}": truth[task] for task in tasks},
        "prediction/seg": np.where(rng.random(truth["seg"].shape) < 0.1, 0, np.maximum(truth["seg"], 0)),
        "prediction/depth": np.where(depth > 0, depth, 3.0) + 0.3 * noise[:, :1] if works else np.nan * depth,
        "prediction/normals": 3.0 * (normals + 0.2 * noise),
        "prediction/edges": np.clip(0.8 * truth["edges"] + 0.1 * noise[:, :1] + 0.1, 0, 1),
    }
