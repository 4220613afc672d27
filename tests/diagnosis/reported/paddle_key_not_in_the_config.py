# expect: rank any
# cause: infer_img
"""PaddlePaddle/PaddleOCR#276: a key that the model asks for is not in the configuration."""

import paddle.distributed as dist
import yaml

CONFIG = """
Global:
  use_gpu: false
  epoch_num: 2
"""


class Recognizer:
    def __init__(self, params):
        self.infer_img = params["infer_img"]  # here


dist.init_parallel_env()
Recognizer(yaml.safe_load(CONFIG)["Global"])
