# expect: rank any
# cause: no labels|not return a loss|labels
# fix: labels
"""huggingface/transformers#34392: the batches of a Trainer have no labels."""

import torch
from transformers import Trainer, TrainingArguments


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x, labels=None):
        logits = self.layer(x)
        return {"logits": logits} if labels is None else {"loss": logits.sum(), "logits": logits}


data = [{"x": torch.ones(2), "answer": 1} for _ in range(4)]
arguments = TrainingArguments("out", max_steps=1, use_cpu=True, report_to=[], remove_unused_columns=True)
Trainer(Net(), arguments, train_dataset=data).train()  # here
