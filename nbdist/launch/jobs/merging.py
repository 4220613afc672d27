"""One journal from those of the nodes.

Each node's supervisor writes its own; whoever watches the run reads them all, and writes down what a reader
of the run has to know. What every node says (that an attempt began) is taken from the first that says it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdist.errors import IllegalTransition
from nbdist.model import (
    AttemptFailed,
    AttemptStarted,
    Event,
    NodesAwaited,
    RankState,
    RemoteRank,
    Resumed,
    Run,
    RunEnded,
    RunLost,
    RunState,
    Stalled,
    StopRequested,
    SupervisorStarted,
    decode_event,
    encode_event,
)
from nbdist.store.log_stream import LogStream
from nbdist.store.paths import NodeDirectory, RunDirectory

_NAME = re.compile(r"(\d+)-(\d+)")


@dataclass(slots=True)
class _Node:
    """How far the journal of a node has been read, and what it has said."""

    number: int
    stream: LogStream
    rest: bytes = b""
    attempt: int = 0
    stopping: bool = False


class NodeJournals:
    """The journals of the nodes of the job's latest life. ``run`` is asked how the run stands, ``record``
    takes what belongs into its journal; ``known`` is what is there already."""

    def __init__(
        self,
        directory: RunDirectory,
        *,
        run: Callable[[], Run],
        record: Callable[[Event], None],
        known: Sequence[Event] = (),
    ) -> None:
        self._directory = directory
        self._run = run
        self._record = record
        self._known = {encode_event(event) for event in known}
        self._attempt = max((e.attempt for e in known if isinstance(e, AttemptStarted)), default=0)
        self._failed = max((e.attempt for e in known if isinstance(e, AttemptFailed)), default=0)
        self._nodes: dict[str, _Node] = {}
        self._begun_anew = False
        self.life = 0
        self.ends: dict[int, RunEnded | RunLost] = {}
        """How the run ended on each node that has said so."""

    @property
    def numbers(self) -> frozenset[int]:
        """The nodes that have begun."""
        return frozenset(node.number for node in self._nodes.values())

    @property
    def stopping(self) -> bool:
        """Whether a node has been told to end, or has ended."""
        return bool(self.ends) or any(node.stopping for node in self._nodes.values())

    def directories(self) -> list[NodeDirectory]:
        """The nodes' own parts of the run's directory."""
        return [NodeDirectory(self._directory.path, name) for name in self._nodes]

    def poll(self) -> bool:
        """Take what is new; whether a life of the job has begun that is not its first."""
        self._find()
        for node in self._nodes.values():
            for event in _events(node):
                self._take(node, event)
        begun, self._begun_anew = self._begun_anew, False
        return begun

    def forget_life(self) -> None:
        """The job will begin another life: what the nodes of this one still say is of no interest."""
        self.life += 1
        self._nodes.clear()
        self.ends.clear()

    def _find(self) -> None:
        try:
            names = sorted(path.name for path in self._directory.nodes.iterdir())
        except OSError:
            return
        for name in names:
            found = _NAME.fullmatch(name)
            if found is None or name in self._nodes or int(found[1]) < self.life:
                continue
            if int(found[1]) > self.life:
                self._begun_anew = bool(self._nodes)
                self.forget_life()
                self.life = int(found[1])
            journal = NodeDirectory(self._directory.path, name).journal
            self._nodes[name] = _Node(int(found[2]), LogStream(journal))

    def _take(self, node: _Node, event: Event) -> None:
        match event:
            case SupervisorStarted():
                return
            case RunEnded() | RunLost():
                # a supervisor that is killed on its very last steps has its end recorded twice
                self.ends.setdefault(node.number, event)
                return
            case AttemptStarted(attempt=attempt):
                node.attempt = attempt
                if attempt <= self._attempt:
                    return
                self._attempt = attempt
            case AttemptFailed(attempt=attempt):
                if attempt <= self._failed:
                    return
                self._failed = attempt
            case NodesAwaited():
                if node.number:
                    return
            case StopRequested():
                node.stopping = True
                if self._run().state is RunState.STOPPING:
                    return
            case RemoteRank(rank=rank, state=state):
                # it knows no better than the node itself, unless that has gone
                if state is not RankState.LOST or self._run().ranks[rank].state.terminal:
                    return
            case Stalled() | Resumed():
                # each node says so
                known = self._run().stalled is not None
                if node.attempt != self._attempt or known is isinstance(event, Stalled):
                    return
            case _:
                if node.attempt != self._attempt:
                    return
        if encode_event(event) in self._known:
            return
        try:
            self._run().after(event)
        except IllegalTransition:
            return
        self._record(event)


def _events(node: _Node) -> list[Event]:
    """What the node has written since, whole lines alone."""
    found: list[Event] = []
    while data := node.stream.read():
        *lines, node.rest = (node.rest + data).split(b"\n")
        for line in lines:
            try:
                event = decode_event(line.decode("utf-8", errors="replace"))
            except ValueError:
                continue
            if event is not None:
                found.append(event)
    return found
