from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

from torchsims._specs import choose, over, split_spec
from torchsims.methods import Method
from torchsims.training._batches import count_batches, shards
from torchsims.workloads import Workload, load_workload, preset

__all__ = ["AUTOCASTS", "DTYPES", "Settings"]

DTYPES = ("float32", "float64")
AUTOCASTS = ("none", "bf16", "fp16")
EVALUATIONS = ("own", "sequential", "joint")
USUAL_MODEL = "hps"


@dataclass(frozen=True)
class Settings:
    """Everything that decides what a run finds.

    Attributes:
        data: the name of the data and its options, as in :func:`torchsims.workloads.load_workload`.
        method: the name of the method and its options, as in :class:`torchsims.methods.Method`.
        model: the name of the architecture and its options.
        tasks: the tasks to train; those of the data if empty.
        root: the folder of the data, for data that has one.
        types: the types of the targets of a table.
        rescale: what each loss is multiplied with, by task.
        epochs: passes through the training data.
        batch: items of a step, over all micro-batches and ranks.
        micro_batches: parts of a batch that are in memory one at a time.
        lr: the learning rate of the model after the warm-up; falls linearly to zero.
        warmup: the share of all steps in which the rate rises.
        weight_decay: of Adam.
        clip: the largest norm of a gradient; 0 for none.
        dtype: ``"float32"`` or ``"float64"``.
        autocast: ``"none"``, or ``"bf16"`` or ``"fp16"`` for the forward passes of training; parameters, losses and
            evaluation stay as ``dtype`` says, and fp16 comes with a gradient scaler.
        evaluation: ``"sequential"`` or ``"joint"`` for methods with an option of this name, unless ``method`` gives it;
            ``"own"`` leaves it to the method. Both ways lead to the same numbers.
        seed: where the model starts, in which order it sees the data, and the method's own random numbers.
        preset: the name of the settings of the data that these started from, see :meth:`of`. Where ``method`` leaves
            out an option, the preset's is taken.

    Example:
        >>> Settings(rescale={"dept": 100.0})
        Traceback (most recent call last):
        ValueError: There is no task `dept`. Did you mean `depth`? The names are seg, depth, normals.
    """

    data: str = "scenes"
    method: str = "sims"
    model: str = USUAL_MODEL
    tasks: tuple[str, ...] = ()
    root: str | None = None
    types: tuple[str, ...] = ()
    rescale: Mapping[str, float] = field(default_factory=dict)
    epochs: int = 8
    batch: int = 8
    micro_batches: int = 1
    lr: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 1e-6
    clip: float = 0.0
    dtype: str = "float32"
    autocast: str = "none"
    evaluation: str = "own"
    seed: int = 0
    preset: str = "default"

    def __post_init__(self) -> None:
        choose("evaluation", self.evaluation, EVALUATIONS)
        method = Method(over(self.method, preset(self.data, self.preset).get("methods", ())))
        if self.evaluation != "own" and "evaluation" in method.defaults:
            method = Method(over(str(method), [f"{method.name}:evaluation={self.evaluation}"]))
        object.__setattr__(self, "method", str(method))  # one spelling, whatever was typed
        for name in ("epochs", "batch", "micro_batches", "lr"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"Parameter `{name}` should be positive. Found `{name} = {getattr(self, name)}`.")
        for name in ("weight_decay", "clip", "seed"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"Parameter `{name}` should not be negative. Found `{name} = {getattr(self, name)}`.")
        if self.seed >= 2**63:
            raise ValueError(f"Parameter `seed` should be below 2^63. Found `seed = {self.seed}`.")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"Parameter `warmup` should be in [0, 1). Found `warmup = {self.warmup}`.")
        choose("dtype", self.dtype, DTYPES)
        choose("autocast", self.autocast, AUTOCASTS)
        if self.autocast != "none" and self.dtype != "float32":
            raise ValueError(f"Parameter `autocast` should be `none` with {self.dtype}. Found `{self.autocast}`.")
        workload = self.workload()
        workload.check_model(self.model)
        for task, factor in self.rescale.items():
            choose("task", task, workload.tasks)
            if not (isfinite(factor) and factor > 0):
                raise ValueError(f"Parameter `rescale` should be positive. Found {factor} for task `{task}`.")

    def check_batches(self, ranks: int = 1) -> None:
        """Refuse a batch that the data cannot fill, or that has no item for one of the ranks or micro-batches."""
        count_batches(self.workload().items("train"), self.batch)
        for rank in range(ranks):
            shards(list(range(self.batch)), rank, ranks, self.micro_batches)

    @classmethod
    def of(cls, name: str, **given: Any) -> "Settings":
        """Return the settings of a preset of the data, and over them what is given.

        Example:
            >>> Settings.of("small", data="scenes", epochs=3).batch
            8
        """
        found = preset(given.get("data", cls.data), name)
        usual = {key: value for key, value in found.items() if key != "methods"}
        chosen = {**usual, **given, "preset": name}
        for part in usual.keys() & {"data", "model"}:
            chosen[part] = over(chosen[part], [usual[part]])
        return cls(**chosen)

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return what differs from the preset: the preset's value and this one, by the name of the setting.

        Where the data is, the seed, and which method it is make no difference.

        Example:
            >>> Settings.of("small", method="sims", epochs=3).changes()
            {'epochs': (6, 3)}
        """
        found = dict(preset(self.data, self.preset))
        methods = found.pop("methods", ())
        usual = Settings().plain() | found | {"root": self.root, "seed": self.seed, "preset": self.preset}
        usual["data"] = over(split_spec(self.data)[0], [usual["data"]])
        usual["method"] = str(Method(over(split_spec(self.method)[0], methods)))
        return {name: (usual[name], value) for name, value in self.plain().items() if value != usual[name]}

    def workload(self) -> Workload:
        """Return the data with its model, losses and metrics."""
        return load_workload(self.data, self.tasks, self.root or "", types=self.types)

    @property
    def label(self) -> str:
        """What tables and plots call the run: the method, the model where it is not the usual one, and rescaling.

        One network a task is STL, whatever the network is.
        """
        parts = [Method(self.method).label]
        usual = preset(self.data, self.preset).get("model", USUAL_MODEL)
        if (architecture := split_spec(self.model)[0]) != split_spec(usual)[0]:
            parts.insert(0, "STL" if architecture.endswith("stl") else architecture.upper())
        parts += [f"{task} x {factor:g}" for task, factor in self.rescale.items()]
        return ", ".join(parts)

    def plain(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return asdict(self) | {"tasks": list(self.tasks), "types": list(self.types), "rescale": dict(self.rescale)}

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> "Settings":
        """Return the settings of a run that is over, as :meth:`plain` wrote them: its data may be gone."""
        usual, settings = Settings().plain(), object.__new__(cls)
        for name in cls.__dataclass_fields__:
            object.__setattr__(settings, name, values.get(name, usual[name]))
        for name in ("tasks", "types"):
            object.__setattr__(settings, name, tuple(getattr(settings, name)))
        Method(settings.method)
        return settings

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "Settings":
        """Return the settings that :meth:`plain` wrote down, whatever else was written beside them."""
        own = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        tuples = {name: tuple(own.get(name, ())) for name in ("tasks", "types")}
        return cls(**{**own, "data": values["data"], "method": values["method"], **tuples})
