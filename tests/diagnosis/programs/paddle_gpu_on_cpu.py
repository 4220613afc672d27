# expect: rank any, line 4, signature paddle-no-gpu
import paddle

paddle.set_device("gpu:0")
