"""What stands in for MNIST where nothing can be downloaded: scikit-learn's 1,797 handwritten digits.

Each is drawn on 28 × 28 pixels; the training set has it at two places, so that one epoch is enough to
learn something. `digits_for_torch.MNIST` and `digits_for_paddle.MNIST` are data sets over these arrays.
"""

import numpy as np
from sklearn.datasets import load_digits

HELD_OUT = 357
PLACES = ((2, 2), (1, 3))


def arrays(train):
    """Images (N, 28, 28) of bytes and labels (N,): 2,880 to train with, or the 357 held out."""
    data = load_digits()
    order = np.random.RandomState(0).permutation(len(data.target))
    chosen = order[HELD_OUT:] if train else order[:HELD_OUT]
    places = PLACES if train else PLACES[:1]
    images = np.concatenate([_drawn(data.images[chosen], *place) for place in places])
    return images, np.tile(data.target[chosen], len(places)).astype("int64")


def _drawn(images, top, left):
    """8 × 8 pixels of 0 to 16, three times as large, on 28 × 28 pixels of 0 to 255."""
    drawn = np.zeros((len(images), 28, 28), "uint8")
    drawn[:, top : top + 24, left : left + 24] = np.kron(images * 255 // 16, np.ones((3, 3)))
    return drawn
