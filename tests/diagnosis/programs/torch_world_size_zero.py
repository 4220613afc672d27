# expect: rank any, line 6, signature store-world-size-zero
import torch
import torch.distributed as dist

gpus = torch.cuda.device_count()
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:22222", world_size=gpus, rank=0)
