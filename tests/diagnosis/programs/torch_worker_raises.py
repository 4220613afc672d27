# expect: rank any, line 11, signature none
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            raise ValueError("image 3 is no picture")
        return index


for batch in DataLoader(Images(), num_workers=2):
    print("batch", batch)
