# expect: rank any, line 5, signature paddle-not-initialized
import paddle
import paddle.distributed as dist

dist.all_reduce(paddle.ones([1]))
