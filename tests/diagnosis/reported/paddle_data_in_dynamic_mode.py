# expect: rank any
# cause: static (graph )?mode|static graphs
# fix: enable_static
"""PaddlePaddle/Paddle#28493: a program for static graphs, under a paddle that begins in dynamic mode."""

import paddle

image = paddle.static.data("image", [None, 784], "float32")  # here
hidden = paddle.static.nn.fc(image, 10)
