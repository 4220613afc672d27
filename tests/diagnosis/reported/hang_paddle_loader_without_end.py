# expect: hang, rank 1
# cause: rank 1 is|holds rank 1|has begun
# fix: break|StopIteration|without end|loop
# run: -n 2 --hang-after 2s
"""PaddlePaddle/PaddleScience#508: a loader begins again and again, and one rank never comes out."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
batches = [paddle.ones([2]), paddle.ones([2])]
seen = 0
while dist.get_rank() == 1:
    for batch in batches:
        seen += int(batch.sum())  # here
dist.barrier()
