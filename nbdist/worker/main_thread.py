"""The main thread of a rank, as the thread beside it sees it (``stacks``, ``freeing``): whether it executes
Python, which exception it handles, whether its program is over."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType, TracebackType
    from typing import Any
else:
    import _signal as signal  # the same without enums, which cost a process that begins 5 ms

# no other process sends this one: the rank notes it for itself (_thread.interrupt_main), and its handler is
# called as soon as the main thread executes Python again
BEAT = int(signal.SIGRTMIN) + 8 if hasattr(signal, "SIGRTMIN") else 0

_PACKAGES = [os.sep + os.path.join(package, "distributed", "") for package in ("torch", "paddle")]

NAMES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}
"""Collectives that torch's recorder has by a name of its own, as programs call them."""

beats = 0  # how often the handler was called
on_beat: Callable[[], object] | None = None  # what the handler calls, which may raise (``freeing``)
obeyed = False  # whether the program was interrupted or freed
over = False
"""Whether the program has ended: what is left is the interpreter's end. In a session: no cell is executed."""


def beat(_number: int, _frame: FrameType | None) -> None:
    global beats
    beats += 1
    if on_beat is not None:
        on_beat()


def takes_beats() -> bool:
    """Return whether the signal reaches the handler: a program may have set another one."""
    return bool(BEAT) and signal.getsignal(BEAT) is beat


def handled(thread: int) -> BaseException | None:
    """Return the exception in whose ``except`` or ``finally`` a thread is."""
    found: Any = sys._current_exceptions().get(thread)
    # until Python 3.11 it gives a triple
    error: BaseException | None = found[1] if isinstance(found, tuple) else found
    return error


def steps_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the frames of a traceback as it has them, outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def is_distributed(code: CodeType) -> bool:
    """Return whether it is of torch's or paddle's package for several processes."""
    return any(package in code.co_filename for package in _PACKAGES)
