# expect: rank any
# cause: divisible|equal parts
# fix: divid|sections|pad|drop_last
"""PaddlePaddle/Paddle#14787: split() into more equal parts than the axis allows."""

import paddle

labels = paddle.arange(31)
parts = paddle.split(labels, num_or_sections=4)  # here
