"""``python -m nbdist``: the command line, where the ``nbdist`` script is not on the path."""

import sys

from nbdist.cli import main

if __name__ == "__main__":
    sys.exit(main())
