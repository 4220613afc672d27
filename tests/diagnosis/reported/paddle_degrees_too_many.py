# expect: rank any
# cause: degrees? .*(multipl|product)|product of|world.size|number of ranks
# fix: degree|-n 4
"""PaddlePaddle/PaddleFleetX#549: degrees that do not multiply to the number of ranks."""

from paddle.distributed import fleet

strategy = fleet.DistributedStrategy()
strategy.hybrid_configs = {"dp_degree": 2, "mp_degree": 2, "pp_degree": 1}
fleet.init(is_collective=True, strategy=strategy)  # here
