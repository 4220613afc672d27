"""The order of a rank: values sent over the socket that its supervisor made for it.

The same socket carries back what the supervisor cannot see from outside: that the program's last
statement is done, or that an exception left it. It is read and written as a plain file descriptor,
since ``import socket`` alone would cost a rank 8 ms, and an order is no JSON, whose module costs 4.
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
"""The file descriptor of a rank's end of the socket. It is closed to whatever the rank executes."""

PARAMS = "NBDIST_PARAMS"
"""The variable that has the values of a sweep's point (``worker.results``), as JSON."""

PLACE = "NBDIST_RUN_DIR"
"""The variable that is written over where the system shows the environment of a process (``_mark``)."""

ROOM = 1024
"""Bytes that are kept free for it: longer paths start cold."""

WAIT = "--wait"
"""Stands for the id of the run on the command line of a rank that waits."""

_LENGTH = 4

HURRY = bytes(_LENGTH)
"""Tells a rank that imports ahead that it has a run: it then imports no more than it must. An empty message,
which is ignored otherwise."""

# What the supervisor says:
COLLECTIVES = b"C"  # which collectives has the rank begun (``worker.stacks``)?
NUMBERS = b"N"  # the same without their names: a look that costs the rank nothing
INTERRUPT = b"I"  # raise KeyboardInterrupt in the main thread (``worker.freeing``)
FREE = b"R"  # come back from a wait for other ranks; a ``Wait`` follows
CELL = b"X"  # to a rank of a session: execute the ``Cell`` that follows
END = b"Q"  # there will be no more cells

# What the rank says:
FINISHED = b"F"
FINISHED_ALONE = b"A"  # the same of a rank that was in no process group
ERRORED = b"E"
HEARD = b"H"  # to INTERRUPT: SIGINT need not be sent
FREED = b"D"  # to FREE: it comes back
LEAVING = b"L"  # to FREE: it is on its way out, by what it raised when it was freed or interrupted
KEPT = b"K"  # to both: it does not wait, or its wait cannot be ended
READY = b"r"  # of a session: it can be given a cell
WELL = b"o"  # it has executed the cell
RAISED = b"x"  # the cell has raised
GROUPED = b"g"  # before one of these two: it is in a process group
BROKEN = b"b"  # what the cell raised is the process group's, which may be of no more use
REJOINED = b"j"  # it has left its process group, and meets the others at the port of the cell


@dataclass_transform(kw_only_default=True)
class _Message:
    """What the supervisor says in one piece: its fields, behind their length in four bytes."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def encode(self) -> bytes:
        # the interpreter that reads it may be another one: what version 2 makes of texts, all can read
        packed = marshal.dumps(vars(self), 2)
        return len(packed).to_bytes(_LENGTH, "little") + packed

    @classmethod
    def receive(cls, channel: Channel | None = None) -> Self:
        """Wait for it. Raises EOFError when the supervisor has gone."""
        channel, length = channel or Channel(), 0
        while not length:
            length = int.from_bytes(channel.take(_LENGTH), "little")
        return cls(**marshal.loads(channel.take(length)))


class Order(_Message):
    """The program, its arguments, and where the rank leaves its error report. ``python_path`` is what
    sys.path is to be (empty: as the interpreter makes it for a script), ``module`` the program's name where
    it is run as ``python -m`` would, ``inputs`` the file of the names that the notebook gives
    (``values.box``)."""

    program: str
    args: list[str]
    python_path: list[str]
    error_file: str
    module: str = ""
    inputs: str = ""


class Wait(_Message):
    """After FREE: a wait for other ranks that has taken ``patience`` seconds, and the sockets that end it, by
    their inodes: ``store`` are those of the store, which end where the program does not come back without."""

    patience: float
    sockets: list[int]
    store: list[int]


class Cell(_Message):
    """After CELL: a cell of a session, with the file of its text, the file of what the notebook gives it
    (empty: nothing), and the names that this rank gives out when it is done (``pull``). ``port`` is where the
    ranks may meet anew. They do before the cell where ``rejoin`` says so: "join" where all of them were in a
    process group, "leave" where they are only to leave what there is."""

    number: int
    path: str
    port: int
    inputs: str = ""
    pull: list[str]
    rejoin: str = ""


class Preload(_Message):
    """The first thing that a waiting rank is told. ``python_path`` is what sys.path is to be; where it is
    empty, ``first`` is its first entry, as for a script in that directory. ``unseen`` are the beginnings of
    the variables that native code may read when the modules are imported."""

    modules: list[str]
    first: str
    python_path: list[str]
    unseen: list[str]


class Assignment(Order):
    """The second: its order, and everything that a new process would have been made from. ``cold`` says why
    the rank cannot be used as it is, and has to begin again; empty when it can."""

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
        """Return the next so many bytes. Raises EOFError when the supervisor has gone."""
        data = b""
        while len(data) < length:
            piece = os.read(self._descriptor, length - len(data))
            if not piece:
                raise EOFError("the supervisor ended before it said what to run")
            data += piece
        return data

    def is_called(self) -> bool:
        """Return whether the supervisor has said something that has not been received."""
        import select  # a rank that has not waited does without

        return bool(select.select([self._descriptor], [], [], 0)[0])

    def tell(self, line: bytes) -> None:
        """Say more than a word, all of it, before the order has come."""
        while line:
            line = line[os.write(self._descriptor, line) :]

    def say(self, word: bytes) -> None:
        """Tell the supervisor a word. A forked child of the rank says nothing."""
        if os.getpid() == self._owner:
            try:
                os.write(self._descriptor, word)
            except OSError:
                # the supervisor has gone, and in a moment this rank will, too
                return
