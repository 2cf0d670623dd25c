"""Step time and peak memory of every method, as multiples of a hand-written training step with equal weights.

    make bench                        or: python bench/steps.py [--seconds 20] [--out bench/RESULTS.md]

Writes `bench/RESULTS.md`. One thread, about three minutes.
"""

import argparse
import inspect
import platform
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from os import getloadavg
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torchsims import FOOPS, SIMS, Scalarized, scalarizations
from torchsims.scalarizations import Scalarization

WARMUP = 3  # rounds: the optimizer states appear in the first step, the early coefficients in the second
FEWEST_ROUNDS = 5
PEAK_STEPS = 5  # copies for the undo are kept from the third step on, and held by the passes of the fourth
BLOCK = 0.01  # seconds by hand that are measured at once
NOISE = "by hand, again (noise)"
MICRO_BATCHES = 4
OUTER, INNER = partial(Adam, lr=1e-4), partial(Adam, lr=5e-4)

Batch: TypeAlias = tuple[Tensor, Tensor]
Step: TypeAlias = Callable[[], object]


# The models: a shared encoder and one head per task.


@final
class Net(nn.Module):
    """A shared encoder and heads; a head gives one task or, where it is the only one, all of them."""

    def __init__(self, encoder: nn.Module, heads: list[nn.Module], tasks: int) -> None:
        super().__init__()
        self.encoder, self.heads, self.tasks = encoder, nn.ModuleList(heads), tasks

    def forward(self, x: Tensor) -> list[Tensor]:
        features = self.encoder(x)
        outputs = [head(features) for head in self.heads]
        return outputs if len(outputs) == self.tasks else list(outputs[0].unbind(1))


@final
class LowRank(nn.Module):
    """A frozen linear map and a trainable map of low rank beside it."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + self.up(self.down(x))
        return result


def conv(inputs: int, outputs: int, stride: int) -> nn.Module:
    layers = [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


def cnn(tasks: int) -> Net:
    encoder = nn.Sequential(conv(3, 32, 1), conv(32, 64, 2), conv(64, 64, 1))
    return Net(encoder, [nn.Conv2d(64, 1, 1) for _ in range(tasks)], tasks)


def perceptron(inputs: int, width: int) -> nn.Module:
    deeper = [layer for _ in range(2) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), *deeper)


def mlp(tasks: int) -> Net:
    return Net(perceptron(64, 512), [nn.Linear(512, 1) for _ in range(tasks)], tasks)


def one_head(tasks: int) -> Net:
    return Net(perceptron(64, 128), [nn.Linear(128, tasks)], tasks)


def small(tasks: int) -> Net:
    encoder = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return Net(encoder, [nn.Linear(128, tasks)], tasks)


def adapted(tasks: int) -> Net:
    encoder = nn.Sequential(*(LowRank(1024, 4) for _ in range(4)))
    return Net(encoder, [nn.Linear(1024, 1) for _ in range(tasks)], tasks)


@final
@dataclass(frozen=True)
class Setting:
    """A model, its data, and what to say about it."""

    name: str
    title: str
    model: Callable[[int], Net]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def make(self, tasks: int) -> tuple[Net, Batch]:
        torch.manual_seed(0)
        return self.model(tasks), (torch.randn(self.inputs), torch.rand(tasks, *self.outputs))


SMALL = Setting("small MLP", "32-128-128-m on 256 rows, one linear head for all tasks", small, (256, 32), (256,))
CNN = Setting(
    "CNN",
    "three convolutions with batch norm on 8 images of 64 x 64, one 1 x 1 convolution per task",
    cnn,
    (8, 3, 64, 64),
    (8, 1, 32, 32),
)
MLP = Setting("MLP", "three layers of 512 on 512 rows, one linear head per task", mlp, (512, 64), (512, 1))
ONE_HEAD = Setting(
    "one head", "three layers of 128 on 64 rows, one linear head for all tasks", one_head, (64, 64), (64,)
)
ADAPTED = Setting(
    "mostly frozen", "four frozen layers of 1024 with adapters of rank 4 on 64 rows", adapted, (64, 1024), (64, 1)
)
TIMES = ((SMALL, 4), (CNN, 2), (CNN, 32), (MLP, 8), (ONE_HEAD, 128))
MEMORY = ((CNN, 2), (CNN, 32), (MLP, 8), (ADAPTED, 2))


def task_losses(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    x, targets = batch
    return {f"task{i}": (y - t).square().mean() for i, (y, t) in enumerate(zip(model(x), targets, strict=True))}


# The methods: what each does in a step, and in how many passes.


@final
@dataclass(frozen=True)
class Method:
    """What is measured.

    Attributes:
        make: prepares the model and returns a step.
        steps: how many hand-written steps are in one step, at least.
        forwards: how many forward passes without gradients there are beside them.
        micro: whether it is compared with a hand-written step over micro-batches.
    """

    make: Callable[[Net, Batch], Step]
    steps: int = 1
    forwards: int = 0
    micro: bool = False


def split(batch: Batch) -> list[Batch]:
    return list(zip(batch[0].chunk(MICRO_BATCHES), batch[1].chunk(MICRO_BATCHES, 1), strict=True))


def by_hand(model: Net, batch: Batch, micro: bool = False) -> Step:
    optimizer = OUTER([p for p in model.parameters() if p.requires_grad])
    parts = split(batch) if micro else [batch]

    def step() -> None:
        optimizer.zero_grad()
        for part in parts:
            (torch.stack(list(task_losses(model, part).values())).mean() / len(parts)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def forward_pass(model: Net, batch: Batch, micro: bool = False) -> Step:
    parts = split(batch) if micro else [batch]

    @torch.no_grad()
    def step() -> None:
        for part in parts:
            task_losses(model, part)

    return step


def scalarized(model: Net, batch: Batch, kind: type[Scalarization], micro: bool = False, **options: Any) -> Step:
    tasks, arguments = [f"task{i}" for i in range(model.tasks)], inspect.signature(kind).parameters
    options |= {"tasks": tasks} if "tasks" in arguments else {}
    options |= {kind.options_by_task: dict.fromkeys(tasks, 1.0)} if kind.options_by_task else {}
    method = Scalarized(model, kind(**options), outer=OUTER)
    return partial(method.step, task_losses, *(split(batch) if micro else [batch]))


def two_copies(model: Net, batch: Batch, kind: type[SIMS] = SIMS, micro: bool = False, **options: Any) -> Step:
    method = kind(model, outer=OUTER, inner=INNER, **options)
    return partial(method.step, task_losses, *(split(batch) if micro else [batch]))


def methods() -> dict[str, Method]:
    result = {NOISE: Method(by_hand)}
    for name in sorted(set(scalarizations.__all__) - {"Scalarization", "from_torchjd"}):
        kind = getattr(scalarizations, name)
        result[name] = Method(partial(scalarized, kind=kind), forwards=int(kind.observes))
    normalised = partial(scalarized, kind=scalarizations.STCH, normalize=True, warmup_epochs=0)
    log_merit = partial(scalarized, kind=scalarizations.LogMerit, micro=True)
    return result | {
        "STCH, normalised": Method(normalised),
        "SIMS, joint": Method(partial(two_copies, evaluation="joint"), 2),
        "SIMS, sequential": Method(two_copies, 2, 1),
        "SIMS, alternating": Method(partial(two_copies, order="alternating"), 2, 2),
        "FOOPS, sequential": Method(partial(two_copies, kind=FOOPS), 2, 1),
        "LogMerit, 4 micro-batches": Method(log_merit, 1, 1, micro=True),
        "SIMS, sequential, 4 micro-batches": Method(partial(two_copies, micro=True), 2, 2, micro=True),
    }


# Time: a step by hand and a step of a method, for every method in turn, many rounds, median ratios.


@final
@dataclass(frozen=True)
class Ratios:
    """Ratios of neighbours: their median and quartiles."""

    median: float
    first: float
    third: float

    @staticmethod
    def of(found: list[float]) -> "Ratios":
        return Ratios(median(found), *quantiles(found, n=4)[::2])

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.first:.2f} to {self.third:.2f})"


def measure(setting: Setting, tasks: int, budget: float) -> tuple[float, dict[str, Ratios]]:
    """Return the seconds of a step by hand, and those of every method as multiples of them."""
    hand = {micro: by_hand(*setting.make(tasks), micro=micro) for micro in (False, True)}
    compared = {name: (method.micro, method.make(*setting.make(tasks))) for name, method in methods().items()}
    ratios: dict[str, list[float]] = {name: [] for name in compared}
    for _ in range(WARMUP):
        for micro, step in compared.values():
            hand[micro]()
            step()
    block = max(1, round(BLOCK / seconds(hand[False], 1)))
    yardstick: list[float] = []
    end = time.monotonic() + budget
    while time.monotonic() < end or len(yardstick) < FEWEST_ROUNDS * len(compared):
        for name, (micro, step) in compared.items():
            before = seconds(hand[micro], block)
            yardstick += [before] if not micro else []
            ratios[name].append(seconds(step, block) / before)
    print(f"{setting.title}: {tasks} tasks, {len(ratios[NOISE])} rounds", flush=True)
    return median(yardstick), {name: Ratios.of(found) for name, found in ratios.items()}


def seconds(step: Step, block: int) -> float:
    """Return the processor time of a step, from some of them at once: a loop of its own has warm caches."""
    start = time.process_time()
    for _ in range(block):
        step()
    return (time.process_time() - start) / block


# Memory: the bytes of all storages that are alive at once, counted exactly.


@final
class PeakBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors made inside, from the construction of the model on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live: int = 0
        self.peak: int = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return
        self._seen.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size


def peak_bytes(setting: Setting, tasks: int, make: Callable[[Net, Batch], Step]) -> int:
    counter = PeakBytes()
    with counter:
        step = make(*setting.make(tasks))
        for _ in range(PEAK_STEPS):
            step()
    return counter.peak


def trainable_bytes(model: nn.Module) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def peaks(setting: Setting, tasks: int) -> dict[str, float]:
    """Return the peak memory of every method as a multiple of a step by hand."""
    hand = {micro: peak_bytes(setting, tasks, partial(by_hand, micro=micro)) for micro in (False, True)}
    return {name: peak_bytes(setting, tasks, each.make) / hand[each.micro] for name, each in methods().items()}


# The page.


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def rule(columns: int) -> str:
    return row("---", *["---:"] * (columns - 1))


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    cores = sum(line.startswith("processor") for line in lines)
    return (
        f"{model}, {cores} cores, {torch.get_num_threads()} thread used; {platform.system()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def table(budget: float) -> Iterator[str]:
    """Yield one table: times, then memory, of every method."""
    times = [measure(setting, tasks, budget) for setting, tasks in TIMES]
    memory = [peaks(setting, tasks) for setting, tasks in MEMORY]
    heads = [f"time: {setting.name}, {tasks} tasks" for setting, tasks in TIMES]
    heads += [f"memory: {setting.name}, {tasks} tasks" for setting, tasks in MEMORY]
    yield row("times a step by hand", "passes", *heads)
    yield rule(2 + len(heads))
    yield row("*a step by hand, ms*", "", *(f"*{1e3 * hand:.2f}*" for hand, _ in times), *("" for _ in memory))
    for name, method in methods().items():
        passes = f"{method.steps + method.forwards} + {method.steps}"
        found = [*(str(ratios[name]) for _, ratios in times), *(f"{ratios[name]:.3f}" for ratios in memory)]
        yield row(name, passes, *found)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure step times and peak memory of all methods.")
    parser.add_argument("--seconds", type=float, default=20.0, help="time per model and number of tasks")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("RESULTS.md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    used = {setting.name: setting.title for setting, _ in (*TIMES, *MEMORY)}
    load = getloadavg()[0]
    lines = [
        "# Step time and peak memory",
        "",
        f"`make bench` writes it; this is `python bench/steps.py --seconds {arguments.seconds:g}`, on: {machine()}; "
        f"a load of {load:.0f} before it.",
        "",
        "The yardstick is a training step written by hand: `zero_grad`, the mean of the losses, `backward`, a step of "
        "Adam. Methods over micro-batches are compared with a step by hand over the same micro-batches.",
        "",
        "- Time: processor time on one thread. All methods take steps in turn, each right after a step by hand, round "
        "after round: the median of the ratios of such neighbours, and its quartiles. The first row is the yardstick "
        "against itself: its distance from 1 is the noise.",
        "- Memory: bytes of all tensors alive at once, from the construction of the model through five steps; exact "
        "and the same in every run.",
        "- Passes: forward and backward passes.",
        *(f"- {name}: {title}." for name, title in used.items()),
        "",
        *table(arguments.seconds),
    ]
    arguments.out.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
