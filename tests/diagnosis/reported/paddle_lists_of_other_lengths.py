# expect: rank any
# cause: length|shape|inhomogeneous|ragged
# fix: pad|same length|concat|stack
"""PaddlePaddle/Paddle#29584: to_tensor() of lists that have not the same length."""

import paddle

tokens = [[1, 2, 3], [4, 5]]
batch = paddle.to_tensor(tokens)  # here
