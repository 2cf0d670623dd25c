"""Networks with one encoder per task, which exchange features between stages."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from torchsims.models.dense.encoders import StagedEncoder
from torchsims.models.dense.network import DenseNetwork, DenseOptions
from torchsims.models.outputs import make_per_task

OWN = 0.9  # share of the own task in a mix, at the start


class Columns(DenseNetwork):
    """One encoder and one head per task; a subclass mixes the features of the tasks between stages.

    Args:
        outputs: channels of the prediction, by task.
        start: folder of a run with one network per task, whose weights training starts from.
        options: see :class:`DenseNetwork`.
    """

    def __init__(self, outputs: Mapping[str, int], start: str = "", **options: Unpack[DenseOptions]) -> None:
        super().__init__(outputs, **options)
        self.start = start
        encoders: list[StagedEncoder] = make_per_task(outputs, lambda *_: self.make_encoder())
        self.encoders = nn.ModuleList(encoders)
        self.stem_channels, self.channels = encoders[0].stem_level.channels, encoders[0].channels
        self.heads = self.make_heads(self.channels)

    @abstractmethod
    def mix(self, level: int, features: list[Tensor]) -> list[Tensor]:
        """Return the features that every task goes on with, after the stem (level 0) or after a stage (from 1 up)."""

    def initial_mix(self) -> Tensor:
        """Return the shares of all tasks in each, `m x m`; the rows sum to 1."""
        tasks = len(self.tasks)
        if tasks == 1:
            return torch.ones(1, 1)
        others = (1 - OWN) / (tasks - 1)
        return others + (OWN - others) * torch.eye(tasks)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """Return one prediction per task, `batch x channels x height x width`, for `batch x 3 x height x width`."""
        columns: list[Any] = list(self.encoders)
        features = self.mix(0, [column.pool(column.run_stem(image)) for column in columns])
        levels: list[list[Tensor]] = []
        for level in range(len(self.channels)):
            found = [column.stages[level](own) for column, own in zip(columns, features, strict=True)]
            features = self.mix(level + 1, found)
            levels.append(features)
        stages = zip(*levels, strict=True)
        parts = zip(self.tasks, self.heads, stages, strict=True)
        return {task: head(own, image.shape[-2:]) for task, head, own in parts}

    def load_single_task(self, state: Mapping[str, Tensor], tasks: tuple[str, ...]) -> None:
        """Start from a trained :class:`torchsims.models.SingleTask` of :class:`HPS`; what is mixed stays as it is.

        Args:
            state: its parameters and buffers.
            tasks: its tasks, in order.
        """
        if missing := [task for task in self.tasks if task not in tasks]:
            raise ValueError(
                f"The run `start` should have the tasks {', '.join(self.tasks)}. Found {', '.join(tasks)}, "
                f"without {missing[0]}."
            )
        for index, task in enumerate(self.tasks):
            prefix = f"networks.{tasks.index(task)}."
            for name, module in (("trunk.", self.encoders[index]), ("heads.0.", self.heads[index])):
                own = {k.removeprefix(prefix + name): v for k, v in state.items() if k.startswith(prefix + name)}
                _load(module, own, task)


def _load(module: nn.Module, state: Mapping[str, Tensor], task: str) -> None:
    here, there = ({name: value.shape for name, value in each.items()} for each in (module.state_dict(), state))
    if wrong := sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name)):
        raise ValueError(
            f"The run `start` should have the encoder and the head of this model. "
            f"Found another `{wrong[0]}` of task `{task}`."
        )
    module.load_state_dict(state)
