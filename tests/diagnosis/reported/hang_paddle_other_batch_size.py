# expect: hang, rank any
# cause: fewer rounds of  for _batch in range\(8 // size\)
# fix: same (number|batch)|every rank|the same on all ranks
# run: -n 2 --hang-after 2s
"""PaddlePaddle/Paddle#57220: the ranks have different batch sizes, and so different numbers of batches."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(2, 2))
size = 2 + 2 * dist.get_rank()
for _batch in range(8 // size):
    model(paddle.ones([size, 2])).sum().backward()  # here
dist.barrier()  # here
