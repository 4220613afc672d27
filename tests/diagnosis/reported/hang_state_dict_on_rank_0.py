# expect: hang, rank any
# cause: different collectives|rank 0 (alone|only)
# fix: every rank|all ranks|outside|\bif\b
# run: -n 2 --hang-after 2s
"""pytorch/pytorch#122903: the whole state of a sharded model is asked for on rank 0 alone."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
if dist.get_rank() == 0:
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))  # here
    torch.save(whole, "model.pt")
dist.barrier()  # here
