# expect: hang, rank 1
# cause: ranks 1, 2 (are|wait)
# fix: batches|queue|barrier|every rank|feed
# run: -n 3 --hang-after 2s
"""dylanyunlon/Neuron_SP#73: rank 0 waits in a barrier, and the others for data that does not come."""

import queue

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
batches = queue.Queue()
if dist.get_rank() == 0:
    batches.put(torch.ones(4))
batch = batches.get()  # here
dist.barrier()
dist.all_reduce(batch)
