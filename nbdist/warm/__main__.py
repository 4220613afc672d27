"""The process of a standby, a supervisor of a run that is not known yet: ``python …/__main__.py FD``."""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        sys.path.insert(
            0,
            os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        )
    from nbdist.warm.standby import main

    sys.exit(main(sys.argv[1:]))
