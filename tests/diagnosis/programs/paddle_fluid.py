# expect: rank any, line 2, signature paddle-fluid-removed
import paddle.fluid as fluid

print(fluid.__version__)
