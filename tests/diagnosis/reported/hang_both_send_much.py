# expect: hang, rank any
# cause: each of .* waits in send
# fix: recv|isend|irecv|batch_isend_irecv
# run: -n 2 --hang-after 2s
"""pytorch/pytorch#172668: two stages of a pipeline send before they receive, more than the sockets hold."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
other = 1 - dist.get_rank()
activations, gradients = torch.ones(8_000_000), torch.zeros(8_000_000)
dist.send(activations, dst=other)  # here
dist.recv(gradients, src=other)
