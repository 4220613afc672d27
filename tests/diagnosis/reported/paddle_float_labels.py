# expect: rank any
# cause: label.*(dtype|int64|type|float)|int64
# fix: int64|soft_label
"""PaddlePaddle/Paddle#33651: labels of a float type in cross_entropy, as the documentation once allowed."""

import paddle

logits = paddle.nn.Linear(4, 3)(paddle.ones([2, 4]))
labels = paddle.to_tensor([0.0, 2.0])
loss = paddle.nn.functional.cross_entropy(logits, labels)
loss.backward()  # here
