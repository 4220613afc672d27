"""A rank that is no Python program: ``nbdist run --no-python ./train.sh`` runs this, with the command. The
command replaces the process, so that its output, its exit code and its signals are the rank's."""

import os
import sys

if __name__ == "__main__":
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"{sys.argv[1]} cannot be run: {error.strerror}")
