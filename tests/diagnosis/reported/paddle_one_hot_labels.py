# expect: rank any
# cause: soft_label|one-hot|shape|dimension|a value for each class
# fix: soft_label=True|argmax|class numbers
"""PaddlePaddle/Paddle#47202: one-hot labels in cross_entropy, which takes them for class numbers."""

import paddle

logits = paddle.ones([2, 3])
labels = paddle.nn.functional.one_hot(paddle.to_tensor([0, 2]), 3)
loss = paddle.nn.functional.cross_entropy(logits, labels.astype("int64"))  # here
