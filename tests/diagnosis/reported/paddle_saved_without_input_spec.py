# expect: rank any
# cause: input_?spec
# fix: input_spec=
"""PaddlePaddle/Paddle#34345: paddle.jit.save() of a layer that was never told its inputs."""

import os

import paddle


class Classifier(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.layer = paddle.nn.Linear(4, 2)

    @paddle.jit.to_static
    def forward(self, x, label):
        return self.layer(x) * label


paddle.jit.save(Classifier(), f"inference-{os.environ['PADDLE_TRAINER_ID']}/model")  # here
