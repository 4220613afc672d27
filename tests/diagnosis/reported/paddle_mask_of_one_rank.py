# expect: rank 1
# cause: label
# fix: label|ignore_index|class
"""PaddlePaddle/PaddleSeg#3770: the masks of one rank have values that are no class."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Conv2D(3, 2, 1))
mask = paddle.full([1, 4, 4], 7 * dist.get_rank(), dtype="int64")
logits = model(paddle.ones([1, 3, 4, 4]))
loss = paddle.nn.functional.cross_entropy(logits, mask, axis=1)  # here
loss.backward()
