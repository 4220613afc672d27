# expect: rank any, line 2, signature removed-name
import paddle.fluid as fluid

print(fluid.__version__)
