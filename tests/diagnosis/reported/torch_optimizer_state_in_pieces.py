# expect: rank any
# cause: consolidate
# fix: consolidate_state_dict
"""open-mmlab/mmengine#551: a ZeroRedundancyOptimizer is saved while its state is in pieces."""

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.1)
model(torch.ones(1, 4)).sum().backward()
optimizer.step()
saved = optimizer.state_dict()  # here
