# expect: rank any, line 3 of paddle_utils.py
# cause: removed
# fix: paddle\.nn|paddle\.static|paddle\.float32|older
"""PaddlePaddle/Paddle#62738: a library is written for paddle.fluid."""

import os
import sys
import tempfile

sys.path.insert(0, tempfile.mkdtemp())
with open(os.path.join(sys.path[0], "paddle_utils.py"), "w") as file:
    file.write("import paddle\n\nFP32 = paddle.fluid.core.VarDesc.VarType.FP32\n")
import paddle_utils

print(paddle_utils.FP32)
