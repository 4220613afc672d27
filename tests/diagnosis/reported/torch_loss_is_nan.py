# expect: rank 1
# cause: nan
# fix: learning rate|every rank|all ranks|printed|last line
"""ai2cm/ace#850: one rank finds that its loss is nan, prints that and exits; the others go on."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(4):
    loss = torch.tensor(float("nan") if dist.get_rank() == 1 and step == 2 else 1.0)
    if not torch.isfinite(loss):
        print(f"Loss is {loss.item()}, stopping training")
        sys.exit(1)  # here
    dist.all_reduce(loss)
