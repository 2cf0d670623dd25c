"""A `Trainer` of Hugging Face for several tasks, balanced by any method (extra ``[huggingface]``).

Example:
    >>> from torchsims.huggingface import MultiTaskTrainer
    >>> MultiTaskTrainer.__mro__[2].__name__
    'Trainer'
"""

from torchsims._extras import needs

with needs("huggingface"):
    from torchsims.huggingface._trainer import MethodFactory, MultiTaskTrainer

__all__ = ["MethodFactory", "MultiTaskTrainer"]
