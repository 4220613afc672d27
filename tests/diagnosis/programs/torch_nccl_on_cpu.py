# expect: rank any, line 4, signature nccl-not-built
import torch.distributed as dist

dist.init_process_group("nccl")
