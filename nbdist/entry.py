"""The begin of nbdist's processes but ranks: ``python nbdist/entry.py MODULE …`` calls MODULE's ``main``.

Run by path with ``-I -S`` where that is enough, which starts sooner; ``-m`` works, too.
"""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        # in the place of this folder, whose modules would be found as others
        begin = 0 if sys.flags.isolated or getattr(sys.flags, "safe_path", False) else 1
        sys.path[:begin] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    module = __import__(f"nbdist.{sys.argv[1]}", fromlist=["main"])
    sys.exit(module.main(sys.argv[2:]))
