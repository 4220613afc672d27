# expect: rank any
# cause: static (graph|mode)
# fix: disable_static
"""PaddlePaddle/PaddleSpeech#1342: a library has switched to static graphs before the training."""

import paddle


def read_with_an_old_library():
    paddle.enable_static()
    return [[1.0, 2.0]]


batch = read_with_an_old_library()
layer = paddle.nn.Linear(2, 2)
loss = layer(paddle.to_tensor(batch)).mean()
loss.backward()  # here
