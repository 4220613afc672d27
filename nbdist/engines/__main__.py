"""Where a run was submitted to an engine, the process that watches it: ``python …/__main__.py RUN_DIR
[LIFELINE_FD]``; and the one that gives an allocation back: ``… --allocation DIR``."""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        sys.path.insert(
            0,
            os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        )
    if sys.argv[1] == "--allocation":
        from nbdist.engines.allocation import main
    else:
        from nbdist.engines.watch import main

    sys.exit(main(sys.argv[1:]))
