# expect: nothing
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
try:
    torch.nn.Linear(4, 2)(torch.ones(1, 3))
except RuntimeError as error:
    print("as expected:", error)
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
