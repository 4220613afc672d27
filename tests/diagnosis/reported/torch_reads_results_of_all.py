# expect: rank 1
# cause: None on|only on rank 0|to one rank alone
# fix: rank 0|broadcast|if dist
"""sshaoshuai/MTR#69: gather_object() gives the list to rank 0 alone; all ranks read it."""

import torch.distributed as dist

dist.init_process_group("gloo")
scores = [None, None] if dist.get_rank() == 0 else None
dist.gather_object({"accuracy": 0.5}, scores, dst=0)
print(sum(one["accuracy"] for one in scores))  # here
dist.barrier()
