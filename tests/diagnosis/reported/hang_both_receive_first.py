# expect: hang, rank any
# cause: each of .* waits to receive
# fix: send.* first|isend|irecv|batch_isend_irecv
# run: -n 2 --hang-after 2s
"""NVIDIA/nccl#479: two ranks exchange tensors, and both begin with the same half."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
other = 1 - dist.get_rank()
mine, theirs = torch.ones(4), torch.zeros(4)
dist.recv(theirs, src=other)  # here
dist.send(mine, dst=other)
