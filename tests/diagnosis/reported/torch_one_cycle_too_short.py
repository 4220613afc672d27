# expect: rank any
# cause: total (number of )?steps|Tried to step|made for 10 steps
# fix: total_steps|len\(loader\)|steps_per_epoch
"""A4Bio/PiFold#6: a schedule of a fixed number of steps, and more batches than that."""

import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=10)
for _step in range(12):
    optimizer.step()
    schedule.step()  # here
