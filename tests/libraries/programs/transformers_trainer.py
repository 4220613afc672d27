# line: -n 2
# needs: transformers
# first: world 2, steps 4
"""Hugging Face's Trainer over a model of one's own; on the CPU it joins because nbdist tells it to."""

import tempfile

import torch
from torch import nn
from transformers import Trainer, TrainingArguments


class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, x=None, labels=None):
        out = self.linear(x).squeeze(-1)
        return {"loss": (out - labels).square().mean(), "logits": out}


class Sums(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.full((4,), index / 64)
        return {"x": x, "labels": x.sum()}


arguments = TrainingArguments(
    tempfile.mkdtemp(),
    per_device_train_batch_size=8,
    num_train_epochs=1,
    report_to=[],
    logging_steps=1,
    save_strategy="no",
    dataloader_pin_memory=False,
    disable_tqdm=True,
)
trainer = Trainer(Regression(), arguments, train_dataset=Sums())
trainer.train()
if trainer.is_world_process_zero():
    print(f"world {arguments.world_size}, steps {trainer.state.global_step}")
