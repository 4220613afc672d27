# expect: rank 1
# cause: gather_list|non-destination
# fix: None|rank 0|if dist
"""EvolvingLMMs-Lab/lmms-eval#322: every rank gives gather_object() a list to fill."""

import torch.distributed as dist

dist.init_process_group("gloo")
scores = [None] * dist.get_world_size()
dist.gather_object({"accuracy": 0.5}, scores, dst=0)  # here
