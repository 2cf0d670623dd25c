"""The private parts of transformers that the trainer relies on.

`tests/huggingface/test_trainer_wrong_use.py` looks for them.
"""

from typing import Any

from torch import Tensor, nn
from transformers import Trainer
from transformers.trainer_pt_utils import find_batch_size

__all__ = ["TrainerWithHooks"]


class TrainerWithHooks(Trainer):  # type: ignore[misc]  # its types are not read
    """A `Trainer` whose private parts have public names here."""

    def on_device(self, inputs: Any) -> Any:
        """Return inputs with their tensors on the device of the run."""
        return self._prepare_inputs(inputs)

    def batch_size(self, inputs: Any) -> int:
        """Return the length of the first tensor of a batch; one if there is none."""
        return find_batch_size(inputs) or 1

    def clip_gradients(self, max_norm: float) -> Tensor:
        """Clip the gradients of a step and return their norm before."""
        raise NotImplementedError

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        return self.clip_gradients(self.args.max_grad_norm)
