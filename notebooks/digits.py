"""A stand-in for MNIST where nothing can be downloaded: scikit-learn's 1,797 handwritten digits.

Each is drawn on 28 × 28 pixels; the training set has it at two places, so that one epoch is enough to
learn something. `digits_for_torch.MNIST` and `digits_for_paddle.MNIST` are data sets over these arrays.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

HELD_OUT = 357
PLACES = ((2, 2), (1, 3))


def arrays(train):
    """Images (N, 28, 28) of bytes and labels (N,): 2,880 to train with, or the 357 held out."""
    drawings, digits = _read()
    order = np.random.RandomState(0).permutation(len(digits))
    chosen = order[HELD_OUT:] if train else order[:HELD_OUT]
    places = PLACES if train else PLACES[:1]
    images = np.concatenate([_drawn(drawings[chosen], *place) for place in places])
    return images, np.tile(digits[chosen], len(places)).astype("int64")


def _read():
    """The drawings (1797, 8, 8) and their digits. From the file of scikit-learn: to import it takes 2 s."""
    if (sklearn := find_spec("sklearn")) is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    table = np.loadtxt(Path(sklearn.origin).parent / "datasets/data/digits.csv.gz", delimiter=",")
    return table[:, :64].reshape(-1, 8, 8), table[:, 64]


def _drawn(images, top, left):
    """8 × 8 pixels of 0 to 16, three times as large, on 28 × 28 pixels of 0 to 255."""
    drawn = np.zeros((len(images), 28, 28), "uint8")
    drawn[:, top : top + 24, left : left + 24] = np.kron(images * 255 // 16, np.ones((3, 3)))
    return drawn
