# expect: rank any, line 7, signature ddp-models-differ
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
layers = [nn.Linear(4, 4) for _ in range(1 + dist.get_rank())]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
