# expect: rank any
# cause: DTensor|shard
# fix: forward\(\)|inside forward|full_tensor|unshard|model\(
# never: to_local
"""pytorch/pytorch#114299: a weight that fully_shard() has split is used outside of forward()."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
embedding = nn.Embedding(16, 8)
fully_shard(embedding, mesh=init_device_mesh("cpu", (2,)))
hidden = torch.randn(2, 8)
logits = nn.functional.linear(hidden, embedding.weight)  # here
