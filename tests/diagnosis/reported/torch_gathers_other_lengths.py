# expect: rank any
# cause: different (sizes|shapes|lengths)
# fix: pad|same shape|all_gather_object
"""pytorch/pytorch#156627: all_gather() of as many scores as each rank has, which gloo cannot do."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
lengths = [3, 2]
scores = torch.ones(lengths[dist.get_rank()])
gathered = [torch.zeros(length) for length in lengths]
dist.all_gather(gathered, scores)  # here
