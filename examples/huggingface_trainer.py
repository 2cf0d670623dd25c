"""A small BERT with two tasks, trained by SIMS in the `Trainer` of Hugging Face.

    torchrun --nproc-per-node 2 examples/huggingface_trainer.py FOLDER    # or python

In texts of random tokens: is 1 more frequent than 2 (half of these labels are missing), and how many thousandths are 3?
"""

import sys
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import AdamW
from transformers import BertConfig, BertModel, TrainingArguments

from torchsims import SIMS, TaskLosses
from torchsims.huggingface import MultiTaskTrainer


class TwoTasks(nn.Module):
    """One encoder, one head per task."""

    def __init__(self) -> None:
        super().__init__()
        size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
        self.encoder = BertModel(BertConfig(vocab_size=8, **size), add_pooling_layer=False)
        self.winner, self.share = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        """Return the outputs of both heads."""
        features = self.encoder(input_ids).last_hidden_state.mean(1)
        return {"winner": self.winner(features), "share": 1000 * self.share(features).squeeze(-1)}


def task_losses(model: nn.Module, inputs: dict[str, Tensor]) -> TaskLosses:
    """Return the sum of every loss and the number of its labels; -100 marks one that is missing."""
    out, winner, share = model(inputs["input_ids"]), inputs["winner"], inputs["share"]
    error = (out["share"] - share).abs().sum()
    total = {"winner": cross_entropy(out["winner"], winner, reduction="sum"), "share": error}
    return TaskLosses(total, count={"winner": (winner != -100).sum(), "share": len(share)})


def rows(number: int, seed: int) -> list[dict[str, Tensor]]:
    """Return texts of 16 tokens with their labels."""
    tokens = torch.randint(8, (number, 16), generator=torch.Generator().manual_seed(seed))
    one, two, three = ((tokens == token).sum(1) for token in (1, 2, 3))
    winner, share = (one > two).long().where(torch.arange(number) % 2 == 0, -100), three / 0.016
    return [{"input_ids": tokens[i], "winner": winner[i], "share": share[i]} for i in range(number)]


if __name__ == "__main__":
    steps = {"num_train_epochs": 5, "per_device_train_batch_size": 16, "gradient_accumulation_steps": 2}
    every = {"eval_strategy": "epoch", "save_strategy": "epoch", "use_cpu": not torch.accelerator.is_available()}
    args = TrainingArguments(sys.argv[1], label_names=["winner", "share"], report_to=[], **steps, **every)
    method = partial(SIMS, tau=3.0, outer=partial(AdamW, lr=3e-3), inner=partial(AdamW, lr=1e-2))
    data: dict[str, Any] = {"train_dataset": rows(512, seed=0), "eval_dataset": rows(128, seed=1)}
    MultiTaskTrainer(args=args, model_init=TwoTasks, method=method, task_losses=task_losses, **data).train()
