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
    from collections.abc import Mapping

    from typing_extensions import Self

CHANNEL = 3
"""The file descriptor of a rank's end of the socket. It is closed to whatever the rank executes."""

PARAMS = "NBDIST_PARAMS"
"""The variable that has the values of a sweep's point (``worker.results``), as JSON."""

_LENGTH = 4

FINISHED = b"F"
FINISHED_ALONE = b"A"
"""The same of a rank that was in no process group."""

ERRORED = b"E"

HURRY = b" "
"""Tells a rank that imports ahead that it has a run: it then imports no more than it must. JSON, which
follows, ignores it as white space."""

COLLECTIVES = b"C"
"""What the supervisor asks on the same socket: which collectives the rank has begun (``worker.stacks``)."""

NUMBERS = b"N"
"""The same without their names: a look that costs the rank nothing."""

INTERRUPT = b"I"
"""Asks for KeyboardInterrupt in the main thread (``worker.freeing``)."""

HEARD = b"H"
"""The answer: SIGINT need not be sent."""

FREE = b"R"
"""Asks it to come back from a wait for other ranks; a ``Wait`` follows."""

FREED = b"D"
"""The answer of a rank that comes back."""

LEAVING = b"L"
"""The answer of one that is on its way out, by what it raised when it was freed or interrupted."""

KEPT = b"K"
"""The answer of one that does not wait, or whose wait cannot be ended."""

CELL = b"X"
"""Gives a rank of a session something to execute; a ``Cell`` follows."""

END = b"Q"
"""Tells it that there will be no more."""

READY = b"r"
"""What a rank of a session says: it can be given a cell."""

WELL = b"o"
"""It has executed the cell."""

RAISED = b"x"
"""The cell has raised."""

GROUPED = b"g"
"""Said before one of these two: it is in a process group of torch."""

BROKEN = b"b"
"""The same: what the cell raised is the process group's, which may be of no more use."""

REJOINED = b"j"
"""It has left its process group, and meets the others at the port of the cell."""


class _Message:
    """What the supervisor says in one piece: its fields, behind their length in four bytes."""

    __slots__: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    def encode(self) -> bytes:
        # the interpreter that reads it may be another one: what version 2 makes of texts, all can read
        said = marshal.dumps(self.to_dict(), 2)
        return len(said).to_bytes(_LENGTH, "little") + said

    @classmethod
    def receive(cls, channel: Channel | None = None) -> Self:
        """Wait for it. Raises EOFError when the supervisor has gone."""
        channel = channel or Channel()
        length = int.from_bytes(channel.take(_LENGTH), "little")
        return cls(**marshal.loads(channel.take(length)))


class Order(_Message):
    """The program, its arguments, and where the rank leaves its error report.

    ``python_path`` is what sys.path is to be (empty: as the interpreter makes it for a script).
    ``module`` is the program's name where it is run as ``python -m`` would, else empty. ``inputs`` is the
    file of the names that the notebook gives (``values.box``); empty where it gives none.
    """

    __slots__ = ("args", "error_file", "inputs", "module", "program", "python_path")

    def __init__(
        self,
        *,
        program: str,
        args: list[str],
        python_path: list[str],
        error_file: str,
        module: str = "",
        inputs: str = "",
    ) -> None:
        self.program = program
        self.args = args
        self.python_path = python_path
        self.error_file = error_file
        self.module = module
        self.inputs = inputs


class Wait(_Message):
    """After FREE: a wait for other ranks that has taken ``patience`` seconds, and the sockets that end it, by
    their inodes: ``store`` are those of the store, which end where the program does not come back without."""

    __slots__ = ("patience", "sockets", "store")

    def __init__(self, *, patience: float, sockets: list[int], store: list[int]) -> None:
        self.patience = patience
        self.sockets = sockets
        self.store = store


class Cell(_Message):
    """After CELL: a cell of a session: its ``number``, and the file of its text. ``inputs`` is the file of
    what the notebook gives it (empty: nothing), ``pull`` are the names that this rank gives out when it is
    done.

    ``port`` is where the ranks may meet anew. They do before the cell where ``rejoin`` says so: "join" where
    all of them were in a process group, "leave" where they are only to leave what there is."""

    __slots__ = ("inputs", "number", "path", "port", "pull", "rejoin")

    def __init__(
        self, *, number: int, path: str, port: int, inputs: str = "", pull: list[str], rejoin: str = ""
    ) -> None:
        self.number = number
        self.path = path
        self.port = port
        self.inputs = inputs
        self.pull = pull
        self.rejoin = rejoin


class Channel:
    """The rank's end of the socket."""

    def __init__(self, descriptor: int = CHANNEL) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._heard = b""

    def receive_line(self) -> bytes:
        """Wait for whatever the supervisor says next. Raises EOFError when it has gone."""
        while b"\n" not in self._heard:
            self._heard += self._read(1 << 16)
        line, end, self._heard = self._heard.partition(b"\n")
        return line + end

    def take(self, length: int) -> bytes:
        """The next so many bytes. Raises EOFError when the supervisor has gone."""
        data = b""
        while len(data) < length:
            data += self._read(length - len(data))
        return data

    def _read(self, most: int) -> bytes:
        piece = os.read(self._descriptor, most)
        if not piece:
            raise EOFError("the supervisor ended before it said what to run")
        return piece

    def is_called(self) -> bool:
        """Whether the supervisor has said something that has not been received."""
        import select  # a rank that has not waited does without

        return bool(self._heard or select.select([self._descriptor], [], [], 0)[0])

    def tell(self, line: bytes) -> None:
        """Say more than a word, all of it, before the order has come."""
        while line:
            line = line[os.write(self._descriptor, line) :]

    def say(self, word: bytes) -> None:
        """Tell the supervisor FINISHED or ERRORED. A forked child of the rank says nothing."""
        if os.getpid() != self._owner:
            return
        try:
            os.write(self._descriptor, word)
        except OSError:
            # the supervisor has gone, and in a moment this rank will, too
            return


PLACE = "NBDIST_RUN_DIR"
"""The variable that is written over where the system shows the environment of a process (``_mark``)."""

ROOM = 1024
"""Bytes that are kept free for it: longer paths start cold."""

WAIT = "--wait"
"""Stands for the id of the run on the command line of a rank that waits."""


class Preload(_Message):
    """The first thing that a waiting rank is told. ``python_path`` is what sys.path is to be; where it is
    empty, ``first`` is its first entry, as for a script in that directory. ``unseen`` are the beginnings of
    the variables that native code may read when the modules are imported."""

    __slots__ = ("first", "modules", "python_path", "unseen")

    def __init__(self, *, modules: list[str], first: str, python_path: list[str], unseen: list[str]) -> None:
        self.modules = modules
        self.first = first
        self.python_path = python_path
        self.unseen = unseen

    def encode(self) -> bytes:
        return _line(self.to_dict())


class Assignment(_Message):
    """The second: everything that a new process would have been made from. ``cold`` says why the rank cannot
    be used as it is, and has to begin again; empty when it can."""

    __slots__ = ("cold", "cwd", "environment", "log", "order")

    def __init__(
        self, *, order: Order, environment: dict[str, str], cwd: str, log: str, cold: str = ""
    ) -> None:
        self.order = order
        self.environment = environment
        self.cwd = cwd
        self.log = log
        self.cold = cold

    def encode(self) -> bytes:
        """As one line."""
        return _line(self.to_dict() | {"order": self.order.to_dict()})

    @classmethod
    def decode(cls, line: bytes) -> Assignment:
        import json

        told = json.loads(line)
        return cls(**told | {"order": Order(**told["order"])})


def _line(told: Mapping[str, object]) -> bytes:
    import json  # a rank that has not waited does without

    return json.dumps(told).encode() + b"\n"
