"""The process of a sweep: ``python …/__main__.py SWEEP_DIR LOCK_FD [LIFELINE_FD]``."""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        # in the place of this folder, whose modules would be found as others
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from nbdist.runner.sweeper import main

    sys.exit(main(sys.argv[1:]))
