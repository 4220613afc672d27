"""The supervisor's process: ``python nbdist/launch/__main__.py RUN_DIR [LIFELINE_FD]``,
or of one whose ranks start before it does: ``… --ahead FD RUN_DIR [LIFELINE_FD]``.

Run by path with ``-I -S`` where that is enough, which starts sooner; ``-m`` works, too.
"""

import os
import sys

if __name__ == "__main__":
    if not __package__:
        sys.path.insert(
            0,
            os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        )
    if sys.argv[1] == "--ahead":
        from nbdist.launch.prestart import main
    else:
        from nbdist.launch.supervisor import main

    sys.exit(main(sys.argv[1:]))
