# expect: rank any
# cause: removed|no attribute|has no norm
# fix: paddle\.nn\.BatchNorm|version|dir\(
"""PaddlePaddle/PaddleSlim#729: a name of paddle.nn that is no longer there."""

import paddle

layer = paddle.nn.norm.BatchNorm2D(4)  # here
