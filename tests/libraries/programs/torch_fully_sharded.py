# line: -n 2
# each: shard of 32 x 16: 16 rows
# first: full weight: \(32, 16\)
"""Parameters in shards over a device mesh, and a full state dict gathered at the end."""

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(backend="gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(2):
    model(torch.randn(4, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
weight = model[0].weight
print(f"shard of {weight.shape[0]} x {weight.shape[1]}: {weight.to_local().shape[0]} rows")
full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
if dist.get_rank() == 0:
    print("full weight:", tuple(full["0.weight"].shape))
dist.barrier()
dist.destroy_process_group()
