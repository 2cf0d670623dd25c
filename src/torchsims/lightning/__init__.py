"""Lightning: a `LightningModule` that states the losses of its tasks and a method; the trainer does the rest.

Example:
    >>> from functools import partial
    >>> import torch
    >>> from torch.optim import Adam
    >>> from torchsims import SIMS
    >>> from torchsims.lightning import MultiTaskModule
    >>> class Net(MultiTaskModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.net = torch.nn.Linear(4, 2)
    ...     def task_losses(self, batch):
    ...         error = (self.net(batch) - 1).square().mean(0)
    ...         return {"metres": error[0], "millimetres": 1e6 * error[1]}
    ...     def configure_method(self, model):
    ...         return SIMS(model, outer=partial(Adam, lr=1e-3), inner=partial(Adam, lr=5e-3))
    >>> Net().automatic_optimization
    True
"""

from torchsims._extras import needs

with needs("lightning"):
    from torchsims.lightning._module import MultiTaskModule
    from torchsims.lightning._optimizer import MethodOptimizer

__all__ = ["MethodOptimizer", "MultiTaskModule"]
