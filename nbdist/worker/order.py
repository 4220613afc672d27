"""Messages between a rank and its supervisor, over a socket that the supervisor has made.

The rank sends what the supervisor cannot see from outside, such as the end of the program's last statement.
This module reads and writes the file descriptor, since ``import socket`` costs a rank 8 ms, and uses
``marshal``, since ``import json`` costs 4.
"""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda kind: kind


CHANNEL = 3
"""The file descriptor of a rank's end of the socket, which programs that the rank executes do not inherit."""

PARAMS = "NBDIST_PARAMS"
"""The variable with the values of a sweep's point (``worker.result_files``), as JSON."""

HOLDS = "NBDIST_HOLDS"
"""The variable that says what holds a rank: "errors", too, "nothing", or else breakpoints alone."""

PLACE = "NBDIST_RUN_DIR"
"""The variable that a waiting rank overwrites in the environment that the system shows (``warm._mark``)."""

ROOM = 1024
"""Bytes for its value: a run with a longer path starts cold."""

WAIT = "--wait"
"""The argument of a waiting rank in place of the run's id."""

_LENGTH = 4

HURRY = bytes(_LENGTH)
"""An empty message: a rank that imports ahead has a run, and imports no more than it must."""

# From the supervisor:
COLLECTIVES = b"C"  # write the collectives that the rank has begun (``worker.stack_answers``)
NUMBERS = b"N"  # the same without their names, which costs the rank nothing
INTERRUPT = b"I"  # raise KeyboardInterrupt in the main thread (``worker.freeing``)
FREE = b"R"  # end a wait for other ranks; a ``Wait`` follows
TERMINATE = b"T"  # call the program's own handler of SIGTERM, or interrupt it where it has none
PAUSE = b"P"  # let the next call of ``nbdist.should_stop`` wait, and write the number of those begun
LEAVE = b"V"  # let it return True from a call on; a ``Leave`` follows
SIGNALLED = b"M"  # SIGTERM has been sent: say when the program's own handler has run (``worker.way_out``)
TASK = b"O"  # record a profile, evaluate an expression, or stop for a debugger; a ``Task`` follows
CELL = b"X"  # to a rank of a session: execute the ``Cell`` that follows
END = b"Q"  # there will be no more cells

# From the rank:
FINISHED = b"F"
FINISHED_ALONE = b"A"  # the same from a rank that was in no process group
ERRORED = b"E"
HEARD = b"H"  # after INTERRUPT: SIGINT is not needed
FREED = b"D"  # after FREE: its wait ends
LEAVING = b"L"  # after FREE: the exception of an earlier FREE or INTERRUPT is ending the program
KEPT = b"K"  # after both: it does not wait, or its wait cannot be ended
SAVES = b"s"  # it is on its way out: in an except, a finally, or after a handler of its own (``way_out``)
WRITES = b"v"  # the same, and it is in ``nbdist.saving()``, or writes below ``nbdist.checkpoint_dir()``
WAITS = b"w"  # it is on its way out, and waits for other ranks
STAYS = b"k"  # it is not, or no longer, on its way out
PAUSED = b"p"  # after PAUSE
READY = b"r"  # a rank of a session: it waits for a cell
WELL = b"o"  # it has executed the cell
RAISED = b"x"  # the cell has raised
GROUPED = b"g"  # before one of these two: it is in a process group
BROKEN = b"b"  # the process group has raised, and may be broken
HELD = b"h"  # a debugger holds its program, or no longer (``RankDirectory.held``)
QUIT = b"q"  # the user of the debugger ends the run
REJOINED = b"j"  # it has left its process group, and meets the others at the port of the cell


@dataclass_transform(kw_only_default=True)
class _Message:
    """A message of the supervisor: its fields, after their length in four bytes."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def encode(self) -> bytes:
        # another version of Python may read it: all read version 2's texts
        packed = marshal.dumps(vars(self), 2)
        return len(packed).to_bytes(_LENGTH, "little") + packed

    @classmethod
    def receive(cls, channel: Channel | None = None) -> Self:
        """Wait for the message. Raises EOFError when the supervisor has died."""
        channel, length = channel or Channel(), 0
        while not length:
            length = int.from_bytes(channel.take(_LENGTH), "little")
        return cls(**marshal.loads(channel.take(length)))


class Order(_Message):
    """The program, its arguments, and the path of its error report. ``python_path`` becomes sys.path (empty:
    as for a script), ``module`` is the name for ``python -m``, ``inputs`` the box of pushed names, ``pull``
    (with commas) the variables that become results at the end."""

    program: str
    args: list[str]
    python_path: list[str]
    error_file: str
    module: str = ""
    inputs: str = ""
    pull: str = ""


class Wait(_Message):
    """After FREE: a wait for other ranks that has taken ``patience`` seconds, and the inodes of the sockets
    that end it. Those of the ``store`` end last, and only where the program still waits."""

    patience: float
    sockets: list[int]
    store: list[int]


class Leave(_Message):
    """After LEAVE: the first ``call`` of ``nbdist.should_stop`` that returns True."""

    call: int


class Task(_Message):
    """After TASK: the fields of ``store.control.RanksRequest``."""

    name: str
    seconds: float
    expression: str


class Cell(_Message):
    """After CELL: a cell, with the file of its text, the box of pushed names (empty: none), and the names to
    store afterwards (``pull``). ``port`` is for a new process group. Before the cell ``rejoin`` "join" leaves
    the group for a new one, "leave" only leaves it."""

    number: int
    path: str
    port: int
    inputs: str = ""
    pull: list[str]
    rejoin: str = ""


class Preload(_Message):
    """The first message to a waiting rank. ``python_path`` becomes sys.path (empty: a script's, in the folder
    ``first``). ``unseen`` are prefixes of the variables that the modules' native code may read."""

    modules: list[str]
    first: str
    python_path: list[str]
    unseen: list[str]


class Assignment(Order):
    """The second message: the order, and all else that a new process has. ``cold``: why it has to restart."""

    environment: dict[str, str]
    cwd: str
    log: str
    cold: str = ""


class Channel:
    """The rank's end of the socket."""

    def __init__(self, descriptor: int = CHANNEL) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._owner = os.getpid()

    def take(self, length: int) -> bytes:
        """Read ``length`` bytes. Raises EOFError when the supervisor has died."""
        data = b""
        while len(data) < length:
            piece = os.read(self._descriptor, length - len(data))
            if not piece:
                raise EOFError("the supervisor ended before it said what to run")
            data += piece
        return data

    def is_called(self) -> bool:
        """Return whether a message is waiting to be received."""
        import select  # only for ranks that wait

        return bool(select.select([self._descriptor], [], [], 0)[0])

    def tell(self, line: bytes) -> None:
        """Send a line, all of it, before the order arrives."""
        while line:
            line = line[os.write(self._descriptor, line) :]

    def say(self, word: bytes) -> None:
        """Send one of the words above, but not from a forked child of the rank."""
        if os.getpid() == self._owner:
            try:
                os.write(self._descriptor, word)
            except OSError:
                return  # the supervisor has died, and this rank dies with it
