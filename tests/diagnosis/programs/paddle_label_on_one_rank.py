# expect: rank 1, line 10, signature paddle-label-out-of-range
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(8, 10))
for step in range(3):
    labels = paddle.full([4], step + 10 * dist.get_rank(), dtype="int64")
    print("step", step)
    loss = paddle.nn.functional.cross_entropy(model(paddle.randn([4, 8])), labels)
    loss.backward()
