"""``nbdist`` on the command line: parse, call, present, and an exit code that scripts can use."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. An interrupt ends the process quietly, also while it begins."""
    # a shell's script has those ignored that it starts with &
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
    # nothing has begun, or all is done: Python would show where it was
    os._exit(_INTERRUPTED)
