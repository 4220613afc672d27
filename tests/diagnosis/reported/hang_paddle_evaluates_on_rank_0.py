# expect: hang, rank any
# cause: different collectives|rank 0 (alone|only)
# fix: every rank|all ranks|\bif\b
# run: -n 2 --hang-after 2s
"""PaddlePaddle/PaddleDetection#5002: with --eval the run hangs: the evaluation of rank 0 gathers from all."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(2, 2))
for _step in range(2):
    model(paddle.ones([1, 2])).sum().backward()
if dist.get_rank() == 0:
    scores = []
    dist.all_gather(scores, paddle.ones([1]))  # here
dist.barrier()  # here
