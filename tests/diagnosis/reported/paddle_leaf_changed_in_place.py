# expect: rank any
# cause: [Ll]eaf|in.place
# fix: no_grad|stop_gradient|set_value
"""PaddlePaddle/Paddle#34514: an optimizer of one's own assigns to the parameters."""

import paddle

weight = paddle.create_parameter([4], "float32")
(weight * 2).sum().backward()
weight.add_(weight.grad * -0.1)  # here
