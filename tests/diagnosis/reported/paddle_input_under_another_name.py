# expect: rank 1
# cause: KeyError: .image
"""PaddlePaddle/PaddleDetection#9444: the batches of one rank have no image, and forward() asks for it."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()


class Backbone(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.layer = paddle.nn.Linear(4, 2)

    def forward(self, inputs):
        return self.layer(inputs["image"])  # here


model = paddle.DataParallel(Backbone())
for step in range(3):
    name = "im" if dist.get_rank() == 1 and step == 1 else "image"
    model({name: paddle.ones([1, 4])}).sum().backward()
