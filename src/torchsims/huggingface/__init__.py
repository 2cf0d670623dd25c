"""A `Trainer` of Hugging Face for several tasks, balanced by any method (extra ``[huggingface]``).

Example:
    >>> from transformers import Trainer
    >>> from torchsims.huggingface import MultiTaskTrainer
    >>> issubclass(MultiTaskTrainer, Trainer)
    True
"""

from torchsims._extras import needs

with needs("huggingface"):
    from torchsims.huggingface._trainer import MethodFactory, MultiTaskTrainer

__all__ = ["MethodFactory", "MultiTaskTrainer"]
