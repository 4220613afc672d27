# expect: rank any, line 11, signature none
import paddle


class Images(paddle.io.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            raise ValueError("image 3 is no picture")
        return index


for _batch in paddle.io.DataLoader(Images(), num_workers=1):
    print("batch")
