# expect: rank any
# cause: 'Model' object is not callable|is no layer
# fix: network|predict_batch|train_batch|paddle\.nn
"""PaddlePaddle/Paddle#33713: a paddle.Model is called as if it were a layer."""

import paddle

model = paddle.Model(paddle.nn.Linear(4, 2))
model(paddle.ones([1, 4]))  # here
