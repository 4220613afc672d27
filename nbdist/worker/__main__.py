"""The process of a rank: a supervisor starts ``python -u nbdist/worker/__main__.py RUN_ID RANK``, by path
and not by ``-m``, so that one place decides the first entry of ``sys.path``."""

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
