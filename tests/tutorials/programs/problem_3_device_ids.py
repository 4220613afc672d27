import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
rank = dist.get_rank()
# one GPU for both ranks is NCCL's "invalid usage"; without a GPU torch refuses device_ids itself
model = torch.nn.Linear(8, 2).to("cuda:0" if torch.cuda.is_available() else "cpu")
model = DistributedDataParallel(model, device_ids=[0])
