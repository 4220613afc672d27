# expect: rank any, line 11, signature paddle-spawn-in-rank
import paddle.distributed as dist


def train():
    dist.init_parallel_env()
    print("child", dist.get_rank())


if __name__ == "__main__":
    dist.spawn(train, nprocs=2)
