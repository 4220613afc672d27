# expect: rank any
# cause: cannot be made a batch|found object|object
# fix: convert|collate_fn|tolist
"""droid-dataset/droid_policy_learning#25: a dataset returns numpy arrays of Python objects."""

import numpy as np
from torch.utils.data import DataLoader, Dataset


class Instructions(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"step": index, "language": np.array(["pick up the cup"], dtype=object)}


for batch in DataLoader(Instructions(), batch_size=2):  # here
    print(batch)
