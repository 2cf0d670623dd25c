"""What the `Trainer` takes for its optimizer."""

from collections.abc import Callable, Mapping
from typing import Any, final

from torch.optim import Optimizer

from torchsims.steppers import Stepper

__all__ = ["MethodOptimizer"]


@final
class MethodOptimizer(Optimizer):
    """All optimizers of a method as one: its step is the method's update, its state is all of the method's.

    The `Trainer` writes the state of its optimizer into every checkpoint, as ``optimizer.pt``, and loads it again, so
    that the challenger, both optimizers and all statistics are there. Its schedule sees the parameter groups of all
    optimizers and multiplies each rate by the same factor.

    Args:
        method: the method.

    Attributes:
        epochs: how many epochs the method has closed.
        steps: how many updates it has made.
    """

    def __init__(self, method: Stepper[Any]) -> None:  # not that of the base class: the groups are the method's
        self.method = method
        self.epochs = 0
        self.steps = 0

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]  # an attribute of the base class
        """The groups of all optimizers, the model's first."""
        return [group for optimizer in self.method.optimizers for group in optimizer.param_groups]

    @property
    def state(self) -> dict[Any, Any]:  # type: ignore[override]
        """What the optimizers know of each parameter."""
        return {p: state for optimizer in self.method.optimizers for p, state in optimizer.state.items()}

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """The options of the model's optimizer."""
        return self.method.optimizers[0].defaults

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the model, and whatever else the method trains."""
        self.method.update()
        self.steps += 1

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: the method drops its gradients itself."""

    def end_epoch(self) -> None:
        """Close an epoch."""
        self.method.end_epoch()
        self.epochs += 1

    def train(self) -> None:
        """Tell the optimizers that know modes, such as schedule-free ones, that training goes on."""
        self._set_mode("train")

    def eval(self) -> None:
        """Tell the optimizers that know modes that the model is evaluated."""
        self._set_mode("eval")

    def state_dict(self) -> dict[str, Any]:
        return {"method": self.method.state_dict(), "epochs": self.epochs, "steps": self.steps}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        if state_dict.keys() != {"method", "epochs", "steps"}:
            raise ValueError(
                "The checkpoint should be one of a `MultiTaskTrainer`. "
                f"Found `optimizer.pt` with the entries {sorted(state_dict)}."
            )
        self.method.load_state_dict(state_dict["method"])
        self.epochs, self.steps = state_dict["epochs"], state_dict["steps"]

    def _set_mode(self, name: str) -> None:
        for optimizer in self.method.optimizers:
            change: Callable[[], None] = getattr(optimizer, name, lambda: None)
            change()
