# expect: hang, rank 2
# cause: fewer rounds of  for _file in files
# fix: drop_last|same number|every rank|all ranks
# run: -n 3 --hang-after 2s
"""argonne-lcf/dlio_benchmark#339: the files do not divide by the ranks: the last one has a step less."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
files = list(range(8))[dist.get_rank() :: 3]
for _file in files:
    dist.barrier()  # here
total = torch.tensor(float(len(files)))
dist.all_reduce(total)  # here
