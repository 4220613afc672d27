# line: -n 2
# each: iter_dt \d+\.\d+ms; iter 20: train loss \d+\.\d+
# more: torch_mnist_style runs the same way
"""A small transformer, a Trainer with callbacks, and a line for each ten iterations."""

import time
from collections import defaultdict

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), nn.Linear(width, width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        seen = self.norm(x)
        x = x + self.attention(seen, seen, seen, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self, vocabulary=16, length=8, width=16):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        self.blocks, self.head = nn.Sequential(Block(width, 2), Block(width, 2)), nn.Linear(width, vocabulary)

    def forward(self, x, targets):
        logits = self.head(self.blocks(self.tokens(x) + self.places))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, model):
        self.model = DistributedDataParallel(model)
        self.callbacks = defaultdict(list)
        self.iter_num, self.iter_dt = 0, 0.0

    def add_callback(self, event, callback):
        self.callbacks[event].append(callback)

    def run(self, iterations):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        began = time.time()
        for self.iter_num in range(iterations):
            text = torch.randint(0, 16, (4, 9)).sort(dim=1).values
            _, self.loss = self.model(text[:, :-1], text[:, 1:])
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            self.iter_dt, began = time.time() - began, time.time()
            for callback in self.callbacks["on_batch_end"]:
                callback(self)


def batch_end_callback(trainer):
    if trainer.iter_num % 10 == 0:
        loss = trainer.loss.item()
        print(f"iter_dt {trainer.iter_dt * 1000:.2f}ms; iter {trainer.iter_num}: train loss {loss:.5f}")


dist.init_process_group()
torch.manual_seed(dist.get_rank())
trainer = Trainer(GPT())
trainer.add_callback("on_batch_end", batch_end_callback)
trainer.run(21)
dist.barrier()
dist.destroy_process_group()
