# expect: rank any, line 1 of optim_factory.py
# cause: removed|no longer|older torch|torch 1
# fix: from torch import inf|torch\.inf|math\.inf
# never: pip install|not installed
"""VITA-Group/SLaK#18: a module beside the program imports from torch._six, which torch no longer has."""

import os
import sys
import tempfile

sys.path.insert(0, tempfile.mkdtemp())
with open(os.path.join(sys.path[0], "optim_factory.py"), "w") as file:
    file.write("from torch._six import inf\n")
import optim_factory

print(optim_factory.inf)
