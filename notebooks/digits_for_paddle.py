"""`paddle.vision.datasets.MNIST` without a network: the same arguments."""

import paddle
from digits import arrays


class MNIST(paddle.io.Dataset):
    def __init__(self, mode="train", transform=None):
        super().__init__()
        self.images, self.labels = arrays(mode == "train")
        self.transform = transform

    def __getitem__(self, index):
        image = self.images[index][:, :, None]
        label = self.labels[index : index + 1]
        return (self.transform(image) if self.transform else image.astype("float32")), label

    def __len__(self):
        return len(self.labels)
