# expect: rank 0, line 6, signature pickle-local
# run: -n 1
import torch.multiprocessing as mp

if __name__ == "__main__":
    mp.spawn(lambda rank: print(rank), nprocs=1)
