# expect: rank any
# cause: different (sizes|shapes)|same shape
# fix: same shape|pad|every rank
"""NVIDIA/nccl#1394: all_reduce() of tensors that have another shape on each rank."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
boxes = paddle.ones([100 + 100 * dist.get_rank(), 4])
dist.all_reduce(boxes)  # here
dist.barrier()
