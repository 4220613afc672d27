# expect: rank 0, line 7, signature paddle-fleet-one-rank
# run: -n 1
import paddle
from paddle.distributed import fleet

fleet.init(is_collective=True)
fleet.distributed_model(paddle.nn.Linear(2, 2))
