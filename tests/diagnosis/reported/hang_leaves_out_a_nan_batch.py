# expect: hang, rank any
# cause: left out or added at line 16
# fix: every rank|all ranks|continue|same number
# run: -n 2 --hang-after 2s
"""ecmwf/WeatherGenerator#2718: a rank leaves out the batch whose loss is nan, and so has one step less."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
for step in range(4):
    loss = model(torch.ones(1, 2)).sum()
    if dist.get_rank() == 1 and step == 1:
        loss = loss * float("nan")
    if not torch.isfinite(loss):
        continue
    loss.backward()  # here
dist.barrier()  # here
