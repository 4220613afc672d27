# line: -n 2
# needs: lightning
# each: fabric rank \d of 2: mean 1\.5
# more: lightning_trainer runs the same way
"""Lightning's Fabric around a loop of one's own."""

import torch
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
model = torch.nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
loss = model(torch.ones(2, 4)).square().mean()
fabric.backward(loss)
optimizer.step()
mean = fabric.all_reduce(torch.tensor([fabric.global_rank + 1.0]), reduce_op="mean").item()
print(f"fabric rank {fabric.global_rank} of {fabric.world_size}: mean {mean}")
fabric.barrier()
