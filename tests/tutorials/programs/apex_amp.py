import torch
import torch.distributed as dist
import torch.nn as nn
from apex import amp
from apex.parallel import DistributedDataParallel as DDP

dist.init_process_group(backend="nccl", init_method="env://")
model = nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
model = DDP(model)
loss = model(torch.randn(100, 784).cuda()).square().mean()
optimizer.zero_grad()
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
