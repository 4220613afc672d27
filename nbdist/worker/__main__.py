"""The process of a rank: ``python -u nbdist/worker/__main__.py RUN_ID RANK``, started by a supervisor.

Run by path and not by ``-m``, so that what is found first on ``sys.path`` is decided in one place.
"""

import os
import sys

if __name__ == "__main__":
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # the first entry is this file's folder, unless the user asked for a safe path (-P, Python 3.11)
    sys.path[: 0 if getattr(sys.flags, "safe_path", False) else 1] = [root]
    if sys.argv[1] == "--wait":
        from nbdist.worker.warm import main
    elif sys.argv[1] == "--again":
        from nbdist.worker.deferred_imports import main
    else:
        from nbdist.worker.bootstrap import main

    main()
