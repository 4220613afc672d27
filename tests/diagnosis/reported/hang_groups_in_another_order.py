# expect: hang, rank any
# cause: different (collectives|groups|orders?)|other order|another order
# fix: same order|sorted|every rank|all ranks
# run: -n 2 --hang-after 2s
"""run-ai/runai-model-streamer#165: the ranks use two groups, in the order that a set happens to have."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
value = torch.ones(1)
for group in [first, second] if dist.get_rank() == 0 else [second, first]:
    dist.all_reduce(value, group=group)  # here
