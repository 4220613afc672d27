# expect: hang, rank 1
# cause: KeyError
# fix: finally|except|KeyError
# run: -n 2 --hang-after 2s
"""pytorch/torchtitan#1342: an exception of one rank waits in finally until all ranks clean up together."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
samples = [{"image": 1.0}, {"image": 2.0}, {"picture": 3.0} if dist.get_rank() == 1 else {"image": 3.0}]
try:
    for sample in samples:
        value = torch.tensor(sample["image"])  # here
        dist.all_reduce(value)
    dist.all_reduce(torch.ones(1))
finally:
    dist.barrier()
    dist.destroy_process_group()
