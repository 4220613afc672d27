"""What a rank that waits is told, and when: what to import, and later everything about its run."""

from __future__ import annotations

import json

from nbdist.worker.order import Order

PLACE = "NBDIST_RUN_DIR"
"""The variable that is written over where the system shows the environment of a process (``_mark``)."""

ROOM = 1024
"""Bytes that are kept free for it: longer paths start cold."""

WAIT = "--wait"
"""Stands for the id of the run on the command line of a rank that waits."""


class Preload:
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
        return json.dumps({name: getattr(self, name) for name in self.__slots__}).encode() + b"\n"


class Engagement:
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
        told = {"environment": self.environment, "cwd": self.cwd, "log": self.log, "cold": self.cold}
        return json.dumps(told | {"order": self.order.to_dict()}).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Engagement:
        told = json.loads(line)
        return cls(**told | {"order": Order(**told["order"])})
