# expect: rank any, line 7, signature paddle-variable-missing
import os

import paddle.distributed as dist

del os.environ["PADDLE_CURRENT_ENDPOINT"]
dist.init_parallel_env()
