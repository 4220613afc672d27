# expect: rank 0, line 8, signature none
# run: -n 1
import torch.multiprocessing as mp


def train(rank, world_size):
    print("child", rank, "of", world_size)
    print(1 / (rank - 1))


if __name__ == "__main__":
    mp.spawn(train, args=(2,), nprocs=2)
