# expect: rank 1, line 8, signature uneven-steps, early 0
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(2, 2))
for _step in range(3 + dist.get_rank()):
    model(paddle.ones([1, 2])).sum().backward()
print("done", dist.get_rank(), flush=True)
