"""What a rank is told: one value, sent over the socket that its supervisor made for it.

The same socket carries back what the supervisor cannot see from outside: that the program's last
statement is done, or that an exception left it. It is read and written as a plain file descriptor,
since ``import socket`` alone would cost a rank 8 ms, and an order is no JSON, whose module costs 4.
"""

from __future__ import annotations

import marshal
import os

CHANNEL = 3
"""The file descriptor of a rank's end of the socket. It is closed to whatever the rank executes."""

_LENGTH = 4

FINISHED = b"F"
FINISHED_ALONE = b"A"
"""The same of a rank that was in no process group."""

ERRORED = b"E"

HURRY = b" "
"""What a rank that imports ahead is told when it has a run: it imports no more than it must. To JSON, which
follows it, it is nothing."""

COLLECTIVES = b"C"
"""What the supervisor asks on the same socket: which collectives the rank has begun (``worker.stacks``)."""

NUMBERS = b"N"
"""The same without their names: a look that costs the rank nothing."""


class Order:
    """The program, its arguments, and where the rank leaves its error report.

    ``python_path`` is what sys.path is to be (empty: as the interpreter makes it for a script).
    ``module`` is the program's name where it is run as ``python -m`` would, else empty.
    """

    __slots__ = ("args", "error_file", "module", "program", "python_path")

    def __init__(
        self,
        *,
        program: str,
        args: list[str],
        python_path: list[str],
        error_file: str,
        module: str = "",
    ) -> None:
        self.program = program
        self.args = args
        self.python_path = python_path
        self.error_file = error_file
        self.module = module

    def to_dict(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    def encode(self) -> bytes:
        """The order, and before it its length in four bytes."""
        # the interpreter that reads it may be another one: what version 2 makes of texts, all can read
        said = marshal.dumps(self.to_dict(), 2)
        return len(said).to_bytes(_LENGTH, "little") + said


class Channel:
    """The rank's end of the socket."""

    def __init__(self, descriptor: int = CHANNEL) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._heard = b""

    def receive(self) -> Order:
        """Wait for the order. Raises EOFError when the supervisor has gone."""
        length = int.from_bytes(self._receive(_LENGTH), "little")
        return Order(**marshal.loads(self._receive(length)))

    def receive_line(self) -> bytes:
        """Wait for whatever the supervisor says next. Raises EOFError when it has gone."""
        while b"\n" not in self._heard:
            self._heard += self._read(1 << 16)
        line, end, self._heard = self._heard.partition(b"\n")
        return line + end

    def _receive(self, length: int) -> bytes:
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
