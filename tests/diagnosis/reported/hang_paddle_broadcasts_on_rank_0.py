# expect: hang, rank any
# cause: different collectives|rank 0 (alone|only)
# fix: every rank|all ranks|outside|\bif\b
# run: -n 2 --hang-after 2s
"""PaddlePaddle/PaddleNLP#7256: only the first rank has a checkpoint to resume from, and tells the step."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
step = paddle.zeros([1])
is_first = dist.get_rank() == 0


def resume():
    step.set_value(paddle.full([1], 100.0))
    dist.all_reduce(step)  # here


if is_first:
    resume()
for _step in range(3):
    dist.all_gather([], step)  # here
