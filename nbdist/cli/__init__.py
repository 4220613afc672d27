"""``nbdist`` on the command line: parse, call, present, and return an exit code for scripts."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
else:
    import _signal as signal  # without enums, which cost 5 ms at the start

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. An interrupt ends the process quietly, even while it starts."""
    # commands that a script starts with & ignore it
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _leave)
    from nbdist.cli import commands

    try:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return commands.main(arguments)
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        if listens:
            signal.signal(signal.SIGINT, _leave)


def _leave(*_: object) -> None:
    # before or after the command: without a traceback
    os._exit(_INTERRUPTED)
