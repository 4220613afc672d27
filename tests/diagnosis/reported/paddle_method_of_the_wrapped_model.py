# expect: rank any
# cause: has no attribute .backbone|wrapped
# fix: _layers
"""PaddlePaddle/Paddle#47109: a method of the model is called on its DataParallel."""

import paddle
import paddle.distributed as dist

dist.init_parallel_env()


class Detector(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.layer = paddle.nn.Linear(4, 2)

    def forward(self, x):
        return self.backbone(x)

    def backbone(self, x):
        return self.layer(x)


model = paddle.DataParallel(Detector())
features = model.backbone(paddle.ones([1, 4]))  # here
