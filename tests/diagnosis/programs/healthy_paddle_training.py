# expect: nothing
import paddle
import paddle.distributed as dist

dist.init_parallel_env()
model = paddle.DataParallel(paddle.nn.Linear(2, 2))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
for step in range(3):
    loss = model(paddle.ones([1, 2])).sum()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print("step", step, "loss", float(loss))
dist.barrier()
