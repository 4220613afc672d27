# expect: rank any, line 17, signature loader-worker-shm
import os
import signal

from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGBUS)


loader = DataLoader(Images(), num_workers=1)
for batch in loader:
    print("batch", batch)
