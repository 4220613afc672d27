# expect: rank any, line 9, signature removed-name
# A helper module that imports what torch had until 1.13, as scripts of that time do.
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, folder := tempfile.mkdtemp())
Path(folder, "misc.py").write_text("from torch._six import inf\n")
import misc  # noqa: E402 - it is written above

print(misc.inf)
