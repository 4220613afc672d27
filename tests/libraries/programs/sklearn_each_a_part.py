# line: -n 2
# needs: sklearn
# each: rank \d fits 2 of 4 settings
"""No process group at all: each rank takes its part of a list of settings, by its rank."""

import os

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
x, y = load_digits(n_class=3, return_X_y=True)
settings = [0.01, 0.1, 1.0, 10.0][rank::size]
for strength in settings:
    score = cross_val_score(LogisticRegression(C=strength, max_iter=200), x / 16, y, cv=3).mean()
    print(f"C={strength}: {score:.3f}")
print(f"rank {rank} fits {len(settings)} of 4 settings")
