# expect: rank any
# cause: \bCPUs?\b|\bGPUs?\b
# fix: BatchNorm|without|--gpus|only on|leave
"""PaddlePaddle/PaddleDetection#6386: a model with sync_batch_norm is trained on the CPU."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.nn.Sequential(paddle.nn.Conv2D(3, 4, 1), paddle.nn.BatchNorm2D(4))
model = paddle.DataParallel(paddle.nn.SyncBatchNorm.convert_sync_batchnorm(model))
model(paddle.ones([2, 3, 4, 4])).sum().backward()  # here
