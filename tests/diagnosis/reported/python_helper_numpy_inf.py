# expect: rank any, line 5 of early_stopping.py
# cause: removed in the NumPy 2
# fix: np\.inf
"""thuml/TimeXer#7: a class of a module beside the program is written for numpy 1."""

import os
import sys
import tempfile

sys.path.insert(0, tempfile.mkdtemp())
with open(os.path.join(sys.path[0], "early_stopping.py"), "w") as file:
    file.write(
        "import numpy as np\n\nclass EarlyStopping:\n    def __init__(self):\n        self.best = np.Inf\n"
    )
from early_stopping import EarlyStopping

print(EarlyStopping().best)
