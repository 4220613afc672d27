# expect: rank any
# cause: dimension|4-D|4D|batch|rank of|shape
# fix: unsqueeze|batch
"""PaddlePaddle/Paddle#27221: a single image goes into the network, without a dimension for the batch."""

import paddle

network = paddle.nn.Sequential(paddle.nn.Conv2D(3, 8, 3), paddle.nn.ReLU())
network(paddle.ones([3, 32, 32]))  # here
