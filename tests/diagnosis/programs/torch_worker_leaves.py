# expect: rank any, line 16, signature loader-worker-exited
import os

from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        os._exit(3)


if __name__ == "__main__":
    for batch in DataLoader(Images(), num_workers=1):
        print("batch", batch)
