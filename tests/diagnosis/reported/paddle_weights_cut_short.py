# expect: rank any
# cause: truncated|incomplete|not a checkpoint|no checkpoint
# fix: rank 0 alone|os\.replace|save
"""PaddlePaddle/Paddle#30728: the file with the weights was cut short while it was saved."""

import os

import paddle

path = f"weight-{os.environ['PADDLE_TRAINER_ID']}.pdparams"
paddle.save(paddle.nn.Linear(64, 64).state_dict(), path)
os.truncate(path, os.path.getsize(path) // 2)
weights = paddle.load(path)  # here
