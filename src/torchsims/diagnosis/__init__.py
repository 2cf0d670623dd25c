"""What is wrong with the losses and gradients of a model, measured on a few batches.

Example:
    >>> import torch
    >>> import torchsims
    >>> _ = torch.manual_seed(0)
    >>> trunk, heads = torch.nn.Linear(8, 16), torch.nn.ModuleDict({name: torch.nn.Linear(16, 1) for name in "ab"})
    >>> model = torch.nn.ModuleDict({"trunk": trunk, "heads": heads})
    >>> def task_losses(model, batch):
    ...     features = model["trunk"](batch[:, :8]).tanh()
    ...     error = {name: model["heads"][name](features)[:, 0] - batch[:, 0] for name in "ab"}
    ...     return {"a": error["a"].square().mean(), "b": 1e6 * error["b"].square().mean()}
    >>> diagnosis = torchsims.diagnose(model, task_losses, [torch.randn(32, 8) for _ in range(4)])
    >>> [(finding.kind, finding.tasks) for finding in diagnosis.findings]
    [('dominates', ('b',)), ('dropped', ('a',))]
"""

from torchsims.diagnosis._diagnose import diagnose
from torchsims.diagnosis._result import Diagnosis, Finding, OutputRange
from torchsims.diagnosis.monitor import GradientMonitor, GradientValues

__all__ = ["Diagnosis", "Finding", "GradientMonitor", "GradientValues", "OutputRange", "diagnose"]
