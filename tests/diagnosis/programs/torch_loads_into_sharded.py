# expect: rank any, line 10, signature load-into-sharded
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group()
model = torch.nn.Linear(8, 8)
saved = {name: value.clone() for name, value in model.state_dict().items()}
fully_shard(model)
model.load_state_dict(saved)
