# expect: rank any
# cause: twice before|update\(\)
# fix: update\(\)
"""Haian-Jin/LVSM#19: a step whose gradients are too large is left out, and scaler.update() with it."""

import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)  # here
    too_large = step == 1
    if not too_large:
        scaler.step(optimizer)
        scaler.update()
