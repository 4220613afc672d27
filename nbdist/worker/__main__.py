"""The process of a rank: ``python -u nbdist/worker/__main__.py RUN_ID RANK``, started by a supervisor.

Run by path and not by ``-m``, so that what is found first on ``sys.path`` is decided in one place.
"""

import os
import sys

if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from nbdist.worker.bootstrap import main

    main()
