"""What came back from the nodes of a cluster, as values, and how a file is laid out for them to see."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from nbdist.store.paths import make_private

_T = TypeVar("_T")

FILES = 15.0
"""Seconds after which a file system that does not answer is given up."""


@dataclass(slots=True)
class NodeWords:
    """What one node has said: how it is (``hello``), what it has seen of others (``looked``), and how late it
    saw a file grow (``grown``)."""

    name: str
    hello: Mapping[str, Any] = field(default_factory=dict)
    looked: Mapping[str, Any] = field(default_factory=dict)
    grown: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""
    came: float = 0.0
    """When its first word came."""
    late: float | None = None
    """After how many seconds its file was seen here; None: not at all."""

    @property
    def has_python(self) -> bool:
        return bool(self.hello)


@dataclass(slots=True)
class JobWords:
    """What came of the job: the nodes that said something, and the problem where there is one.

    ``waits`` is why it was not started in time, ``refused`` why Slurm did not take it, ``silent`` that it
    runs and not every node has spoken, ``noise`` its last words on stderr."""

    nodes: dict[str, NodeWords] = field(default_factory=dict)
    job: str = ""
    queued: float = 0.0
    seconds: float = 0.0
    waits: str = ""
    refused: str = ""
    silent: bool = False
    unwritable: str = ""
    noise: str = ""

    def heard(self, said: Mapping[str, Any]) -> None:
        """A node has said something."""
        node = self.nodes.setdefault(said["name"], NodeWords(name=said["name"]))
        match said["say"]:
            case "hello":
                node.hello, node.came = said, time.time()
                self.job = said["job"] or self.job
            case "looked":
                node.looked = said
            case "grown":
                node.grown = said


def prepare(shared: Path, token: str) -> str:
    """Write a file for the nodes to see; what speaks against it."""
    try:
        make_private(shared)
        (shared / "here").write_text(token, encoding="utf-8")
    except OSError as error:
        return error.strerror or str(error)
    return ""


def clear(shared: Path) -> None:
    """Take away what was laid out, and the place for it unless another doctor is at work."""
    shutil.rmtree(shared, ignore_errors=True)
    with contextlib.suppress(OSError):
        shared.parent.rmdir()


def within(limit: float, work: Callable[[], _T]) -> _T | None:
    """What ``work`` returns; None when it takes longer than ``limit`` seconds, and is left to itself: a file
    system that stalls cannot be interrupted."""
    found: list[_T] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(limit)
    return found[0] if found else None
