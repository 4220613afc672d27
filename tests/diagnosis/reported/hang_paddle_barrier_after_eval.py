# expect: hang, rank any
# cause: different collectives|rank 0 (alone|only)
# fix: every rank|all ranks|\bif\b
# run: -n 2 --hang-after 2s
"""PaddlePaddle/ERNIE#643: training stands still some steps after the first evaluation."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(2, 2))
for step in range(6):
    model(paddle.ones([1, 2])).sum().backward()  # here
    if step == 2 and dist.get_rank() == 0:
        paddle.save(model.state_dict(), "best.pdparams")
        dist.barrier()  # here
