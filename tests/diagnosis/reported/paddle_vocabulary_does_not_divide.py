# expect: rank any
# cause: divi|odd|multiple
# fix: pad|multiple|divis
"""NVIDIA/TensorRT-LLM#374: a vocabulary of odd size is split over two ranks."""

from paddle.distributed import fleet

strategy = fleet.DistributedStrategy()
strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": 2, "pp_degree": 1}
fleet.init(is_collective=True, strategy=strategy)
embedding = fleet.meta_parallel.VocabParallelEmbedding(151851, 8)  # here
