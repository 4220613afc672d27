# expect: rank any
# cause: [Mm]issing key|not have the same layers|does not have
# fix: allow_partial_load|strict|model it was saved from
"""pytorch/pytorch#148252: a distributed checkpoint is loaded into a model with one layer more."""

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn

dist.init_process_group("gloo")
small = nn.Sequential(nn.Linear(4, 4))
dcp.save(small.state_dict(), checkpoint_id="step-100")
large = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
dcp.load(large.state_dict(), checkpoint_id="step-100")  # here
