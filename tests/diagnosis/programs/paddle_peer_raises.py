# expect: rank 1, line 9, signature none
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
value = paddle.ones([1])
dist.all_reduce(value)
if dist.get_rank() == 1:
    raise RuntimeError("boom on rank 1")
dist.all_reduce(value)
