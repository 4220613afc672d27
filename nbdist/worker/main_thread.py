"""The main thread's state for the thread beside it (``stack_answers``, ``freeing``): whether it executes
Python, the exception that it handles, whether its program is over."""

from __future__ import annotations

import _thread
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

# the rank sets this signal by _thread.interrupt_main: the main thread handles it once it executes Python
BEAT = int(signal.SIGRTMIN) + 8 if hasattr(signal, "SIGRTMIN") else 0

_PACKAGES = [os.sep + os.path.join(package, "distributed", "") for package in ("torch", "paddle")]

NAMES = {"_all_gather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor"}
"""Names of collectives in torch's recorder, with those in programs."""

beats = 0  # calls of the handler
on_beat: Callable[[], object] | None = None  # the handler calls it, and it may raise (``freeing``)
requests: list[Callable[[FrameType], None]] = []  # the handler calls each once (``debugger``)
process = 0  # the rank's own, and of none that it forks
obeyed = False  # the program was interrupted or freed
blocks = 0  # of ``nbdist.saving()``, in any thread, which an interrupt waits for
handler_ran = False  # at the end that the supervisor has begun, a handler of the program's own
over = False  # the program has ended; in a session: no cell is executed


def beat(_number: int, frame: FrameType | None) -> None:
    global beats
    beats += 1
    if on_beat is not None:
        on_beat()
    while requests and frame is not None:
        requests.pop(0)(frame)


def takes_beats() -> bool:
    """Return whether the handler is still in place: a program may have set another one."""
    return bool(BEAT) and signal.getsignal(BEAT) is beat


def enter_block() -> None:
    """Let interrupts wait until ``leave_block``."""
    global blocks
    blocks += 1


def leave_block() -> None:
    """Let an interrupt that has waited come, when no other block is left."""
    global blocks
    blocks -= 1
    if not blocks and on_beat is not None:
        _thread.interrupt_main(BEAT)  # type: ignore[arg-type]  # it has no name of its own


def handled(thread: int) -> BaseException | None:
    """Return the exception in whose ``except`` or ``finally`` a thread is."""
    error: Any = sys._current_exceptions().get(thread)
    # a triple until Python 3.11
    return error[1] if isinstance(error, tuple) else error  # type: ignore[no-any-return]


def steps_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of a traceback, outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def is_distributed(code: CodeType) -> bool:
    """Return whether code belongs to torch.distributed or paddle.distributed."""
    return any(package in code.co_filename for package in _PACKAGES)
