# expect: rank any, line 6, signature ddp-device-ids-on-cpu
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
nn.parallel.DistributedDataParallel(nn.Linear(2, 2), device_ids=[dist.get_rank()])
