# line: -n 2
# needs: accelerate
# first: 2 processes, epoch 0: loss \d+\.\d+, 32 samples
"""A loop of Hugging Face's accelerate: prepare, accumulate, gather_for_metrics, print once."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=2)
set_seed(1)
x = torch.randn(32, 4)
model = torch.nn.Linear(4, 1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.05), loader)
seen, losses = 0, []
for source, target in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(source), target)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    gathered = accelerator.gather_for_metrics((loss.detach().reshape(1), target))
    losses.append(gathered[0].mean().item())
    seen += len(gathered[1])
accelerator.wait_for_everyone()
accelerator.print(f"{accelerator.num_processes} processes, epoch 0: loss {losses[-1]:.4f}, {seen} samples")
accelerator.end_training()
