# expect: rank any
# cause: shard|DTensor
# fix: set_model_state_dict|before fully_shard|load first
# never: to_local
"""pytorch/pytorch#136336: whole weights are loaded into a model that fully_shard() has split."""

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
saved = {name: weight.clone() for name, weight in model.state_dict().items()}
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
model.load_state_dict(saved)  # here
