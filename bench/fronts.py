"""Print the tables of docs/fronts.md on trained networks: where preferences end, for seven methods.

    python bench/fronts.py multimnist MNIST_FOLDER
    python bench/fronts.py table qm9_small.parquet

MultiMNIST: 3000 pairs of digits, 2000 to test on, three preferences; a LeNet with 4 and 8 channels and 10 hidden units,
so that the tasks compete for them.
Table: `alpha` and `homo` of QM9 in native units, a perceptron with 4 hidden units; `python bench/fronts.py cut
qm9.parquet qm9_small.parquet` keeps every fourth molecule of the file of bench/real_tables.py. Every method gets the
same epochs per point, COSMOS as many as all points together. Losses are those of the final models on the whole test and
training split, without the factor 1000. Hypervolumes of the test losses are shares of the box from the best ones to
those of outputs that are all zero, mean and standard deviation over seeds; reversed are training losses, compared
within a seed.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pyarrow import parquet
from torch import Tensor, nn
from torch.optim import Adam

from torchsims.data import MultiMNIST
from torchsims.fronts import find_reversals, front_comparison, preference_grid
from torchsims.metrics import hypervolume
from torchsims.models.lenet import KERNEL, LeNet
from torchsims.synthetic.cosmos import ALPHA, cosmos_objective
from torchsims.training import FrontConfig, RunConfig, complete_config, load_model, resolve, train
from torchsims.training.batches import load_batches, training_batches
from torchsims.training.closure import RunClosure
from torchsims.training.trainer import warmup_then_decay
from torchsims.workloads import Workload
from torchsims.workloads.multimnist import MultiMNISTWorkload

POINTS, SPREAD = {"multimnist": 3, "table": 5}, 16.0
FACTORS = (1.0, 1000.0)
METHODS = {
    "SIMS": "sims:tau=0.3",
    "LogMerit": "logmerit:tau=0.3",
    "weighted EW": "fixed",
    "STCH": "stch:mu=0.3",
    "STCH, normalised": "stch:mu=0.3:normalize=yes:warmup_epochs=1",
    "PBI": "pbi",
    "COSMOS": "",
}
Points = NDArray[np.float64]
SETTINGS: dict[str, dict[str, Any]] = {
    "multimnist": {"data": "multimnist:images=3000", "model": "lenet:channels=4:hidden=10", "epochs": 5, "batch": 32},
    "table": {"data": "table", "model": "mlp:hidden=4:layers=1", "epochs": 20, "batch": 64, "tasks": ("alpha", "homo")},
}


class Conditioned(nn.Module):
    """A network whose first input has the ray appended to its channels or columns."""

    def __init__(self, model: nn.Module, tasks: int) -> None:
        super().__init__()
        self.model, self.ray = model, torch.full((tasks,), 1 / tasks)

    def forward(self, x: Tensor, *others: Tensor) -> Any:
        ray = self.ray.reshape(1, -1, *[1] * (x.ndim - 2)).expand(len(x), -1, *x.shape[2:])
        return self.model(torch.cat([x, ray.to(x)], 1), *others)


def make_conditioned(config: RunConfig) -> Conditioned:
    resolved = resolve(config)  # its workload is no other's: its columns change here
    workload, tasks = resolved.workload, len(resolved.workload.tasks)
    if "numbers" in workload.model_arguments():
        workload.numbers += tasks  # type: ignore[attr-defined]  # of a table
        return Conditioned(resolved.build_model(), tasks)
    model = resolved.build_model()
    assert isinstance(model, LeNet)
    first = model.encoder[0]
    assert isinstance(first, nn.Conv2d)
    model.encoder[0] = nn.Conv2d(1 + tasks, first.out_channels, KERNEL)
    return Conditioned(model, tasks)


def train_cosmos(config: RunConfig, workload: Workload) -> Conditioned:
    """Train one model for all rays, with a ray drawn for every batch."""
    model = make_conditioned(config)
    data, closure = workload.split("train"), RunClosure(workload, config, torch.device("cpu"))
    steps = config.epochs * len(training_batches(len(data), config.batch, 0, 0))  # type: ignore[arg-type]
    optimizer, step = Adam(model.parameters(), lr=config.lr), 0
    rays = torch.distributions.Dirichlet(torch.full((len(workload.tasks),), ALPHA))
    for epoch in range(config.epochs):
        order = training_batches(len(data), config.batch, config.seed, epoch).tolist()  # type: ignore[arg-type]
        for batch in load_batches(data, order, 0):
            for group in optimizer.param_groups:
                group["lr"] = config.lr * warmup_then_decay(step, steps, config.warmup)
            model.ray = rays.sample()
            found = closure(model, closure.to_device(batch)).mean()
            losses = torch.stack([found[task] for task in workload.tasks])
            optimizer.zero_grad()
            torch.autograd.backward(cosmos_objective(losses, model.ray.to(losses)))
            optimizer.step()
            step += 1
    return model


@torch.no_grad()
def final_losses(config: RunConfig, workload: Workload, model: nn.Module, split: str) -> list[float]:
    """Return the mean losses over a split, without the factor."""
    data, closure = workload.split(split), RunClosure(workload, replace(config, rescale={}), torch.device("cpu"))
    items = range(len(data))  # type: ignore[arg-type]
    sums = {task: [0.0, 0.0] for task in workload.tasks}
    model.eval()
    for batch in load_batches(data, (list(items[i : i + 1000]) for i in items[::1000]), 0):
        found = closure(model, closure.to_device(batch))
        assert isinstance(found.total, Mapping)
        assert isinstance(found.count, Mapping)
        for task, entry in sums.items():
            entry[0] += float(found.total[task])
            entry[1] += float(found.count[task])
    return [total / count for total, count in sums.values()]


class Zeros(nn.Module):
    """The outputs of a model, all zero: the mean of a number, and equal odds of all classes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        return {task: 0 * out for task, out in self.model(*inputs).items()}


def front_models(
    method: str, base: RunConfig, workload: Workload, preferences: Sequence[Mapping[str, float]]
) -> Iterator[nn.Module]:
    """Yield one model per preference."""
    if not method:
        model = train_cosmos(replace(base, epochs=base.epochs * len(preferences)), workload)
        for each in preferences:
            inverse = torch.tensor([1 / p for p in each.values()])  # a preferred task has a small loss
            model.ray = inverse / inverse.sum()
            yield model
        return
    config = complete_config({**base.to_dict(), "method": method})
    chosen = FrontConfig(points=len(preferences), spread=SPREAD)
    plan = front_comparison(config, chosen, list(preferences[0]), Path())
    for point in plan.configs:
        with tempfile.TemporaryDirectory() as folder:
            train(replace(resolve(point), workload=workload), Path(folder))
            yield load_model(folder)[1]


def front_losses(
    method: str, config: RunConfig, workload: Workload, preferences: Sequence[Mapping[str, float]]
) -> Points:
    """Return the losses along a front, `point x split x task`, for the test and the training split."""
    torch.manual_seed(config.seed)
    models = front_models(method, config, workload, preferences)
    return np.array([[final_losses(config, workload, model, split) for split in ("test", "train")] for model in models])


def print_table(found: Mapping[tuple[str, float], Points], preferences: Sequence[Any], high: Sequence[float]) -> None:
    """Print one line per method: hypervolumes in a common box, cases that are reversed, and what the factor moves."""
    low = np.concatenate([points[:, :, 0].reshape(-1, len(high)) for points in found.values()]).min(0)
    box: dict[str, Any] = {"reference": list(high), "ideal": low.tolist()}
    print(f"box: {box}\n\n| method | hypervolume | x 1000 | reversed | x 1000 | moved |\n|---|---|---|---|---|---|")
    for label in METHODS:
        texts = []
        for points in (found[label, factor] for factor in FACTORS):
            volumes = [hypervolume(seed[:, 0], **box) for seed in points]
            texts.append(f"{np.mean(volumes):.3f} ± {np.std(volumes, ddof=1) if len(volumes) > 1 else np.nan:.3f}")
        for points in (found[label, factor] for factor in FACTORS):
            cases = [find_reversals(preferences, seed[:, 1]) for seed in points]
            texts.append(f"{sum(len(wrong) for wrong, _ in cases)} of {sum(compared for _, compared in cases)}")
        one, other = (found[label, factor][:, :, 0] for factor in FACTORS)
        print(f"| {label} | {' | '.join(texts)} | {np.max(np.abs(one - other) / (high - low)):.2g} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=(*SETTINGS, "cut"))
    parser.add_argument("root", help="folder of MNIST, or a file")
    parser.add_argument("out", nargs="?", help="file to write, for `cut`")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 0 up")
    options = parser.parse_args()
    if options.data == "cut":
        table = parquet.read_table(options.root)
        parquet.write_table(table.take(list(range(0, len(table), 4))), options.out)
        return
    torch.set_num_threads(1)
    base = complete_config({**SETTINGS[options.data], "root": options.root})
    resolved = resolve(base)
    workload, tasks = resolved.workload, resolved.workload.tasks
    preferences = preference_grid(tasks, POINTS[options.data], SPREAD)
    if isinstance(workload, MultiMNISTWorkload):  # its test split has 10 000 pairs
        workload._kept["test"] = MultiMNIST(options.root, "test", 2000)
    found = {}
    for label, method in METHODS.items():
        for factor in FACTORS:
            config = replace(base, rescale={} if factor == 1 else {tasks[0]: factor})
            seeds = [replace(config, seed=seed) for seed in range(options.seeds)]
            found[label, factor] = np.stack([front_losses(method, each, workload, preferences) for each in seeds])
            for points in found[label, factor]:
                print(label, factor, " ".join(f"{a:.4g}, {b:.4g};" for a, b in points[:, 0]), flush=True)
    print_table(found, preferences, final_losses(base, workload, Zeros(resolved.build_model()), "test"))


if __name__ == "__main__":
    main()
