"""One journal from those of the nodes, and requests to the nodes' supervisors.

Each node's supervisor writes a journal; the watcher of the run merges them. It records an event of all nodes
(an attempt began) once, from the first node.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    RunSpec,
    RunState,
    Stalled,
    StopRequested,
    SupervisorStarted,
    decode_event,
    encode_event,
)
from nbdist.store.control import RanksRequest, request_of_ranks, request_stacks
from nbdist.store.logs import LogStream
from nbdist.store.paths import NodeDirectory, RunDirectory
from nbdist.store.reports import RankAnswer, TakenStacks, read_stacks, stacks_stamp, write_stacks

_NAME = re.compile(r"(\d+)-(\d+)")


@dataclass(slots=True)
class _Node:
    """Position in the journal of a node, and its state."""

    number: int
    stream: LogStream
    rest: bytes = b""
    attempt: int = 0
    stopping: bool = False


class NodeJournals:
    """Journals of the nodes of the job's latest life. ``run`` returns the run's state, ``record`` appends to
    its journal, which has the ``known`` events."""

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
        # an earlier watcher has recorded the end of those before
        self.life = sum(isinstance(e, AttemptFailed) and e.reason.code == "requeued" for e in known)
        self.ends: dict[int, RunEnded | RunLost] = {}
        """End of the run, by node."""

    @property
    def numbers(self) -> frozenset[int]:
        """Return the nodes that have begun."""
        return frozenset(node.number for node in self._nodes.values())

    @property
    def stopping(self) -> bool:
        """Return whether a node is stopping or has ended."""
        return bool(self.ends) or any(node.stopping for node in self._nodes.values())

    def directories(self) -> list[NodeDirectory]:
        """Return the nodes' own parts of the run's directory."""
        return [NodeDirectory(self._directory.path, name) for name in self._nodes]

    def poll(self) -> None:
        """Merge new events of the known nodes."""
        for node in self._nodes.values():
            for event in _events(node):
                self._take(node, event)

    def forget_life(self) -> None:
        """Drop the nodes of this life: the job will begin another."""
        self.life += 1
        self._nodes.clear()
        self.ends.clear()

    def find(self) -> bool:
        """Find nodes that have begun; return whether the job began another life."""
        try:
            names = sorted(path.name for path in self._directory.nodes.iterdir())
        except OSError:
            return False
        begun_anew = False
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None or name in self._nodes or int(match[1]) < self.life:
                continue
            if int(match[1]) > self.life:
                begun_anew = bool(self._nodes)
                self.forget_life()
                self.life = int(match[1])
            journal = NodeDirectory(self._directory.path, name).journal
            self._nodes[name] = _Node(int(match[2]), LogStream(journal))
        return begun_anew

    def _take(self, node: _Node, event: Event) -> None:
        match event:
            case SupervisorStarted():
                return
            case RunEnded() | RunLost():
                # a supervisor killed during its last steps records its end twice
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
                # only the watcher records a request, for the one that replaces it
                event = replace(event, requested=False)
            case RemoteRank(rank=rank, state=state):
                # the node itself knows better, unless it has gone
                if state is not RankState.LOST or self._run().ranks[rank].state.terminal:
                    return
            case Stalled() | Resumed():
                # each node sends one
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
    """Return the events in new whole lines of the node's journal."""
    events: list[Event] = []
    while data := node.stream.read():
        *lines, node.rest = (node.rest + data).split(b"\n")
        for line in lines:
            try:
                event = decode_event(line.decode("utf-8", errors="replace"))
            except ValueError:
                continue
            if event is not None:
                events.append(event)
    return events


_PATIENCE = 6.0
"""Seconds for the nodes to answer with stacks. A rank has one second; files may be late."""

_BEGINNING = 1.5
"""Seconds for nodes that have not begun."""


class NodeRequests:
    """Requests to the nodes, and their merged answers. ``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory, spec: RunSpec, nodes: NodeJournals) -> None:
        self._directory = directory
        self._spec = spec
        self._nodes = nodes
        # the open requests for stacks, since when, and the name of the request to each node
        self._names: list[str] = []
        self._since = 0.0
        self._asked: dict[str, str] = {}
        self._stamps: dict[str, object] = {}

    def pass_on(self, request: RanksRequest) -> None:
        """Pass a request to all nodes: each has some of its ranks."""
        for node in self._nodes.directories():
            with contextlib.suppress(OSError):
                request_of_ranks(node, request)

    def stacks(self, name: str, now: float) -> None:
        """Request the stacks of all ranks, for the request ``name``."""
        if not self._names:
            self._since, self._asked = now, {}
        self._names.append(name)

    def tick(self, now: float) -> None:
        """Merge the nodes' stacks when all have answered, or when one has taken stacks by itself."""
        stamps: dict[str, object] = {node.name: stacks_stamp(node) for node in self._nodes.directories()}
        if not self._names:
            if stamps != self._stamps and any(stamps.values()):
                self._merge(())
        elif self._is_answered(now):
            names, self._names = tuple(self._names), []
            self._merge(names)
        else:
            return
        self._stamps = stamps

    def _is_answered(self, now: float) -> bool:
        """Send the request to new nodes; return whether all have answered, or the time is over."""
        nodes = self._nodes.directories()
        for node in nodes:
            if node.name not in self._asked:
                with contextlib.suppress(OSError):
                    self._asked[node.name] = request_stacks(node)
        if now - self._since >= (_PATIENCE if nodes else _BEGINNING):
            return True
        answers = [(read_stacks(node), self._asked.get(node.name)) for node in nodes]
        answered = sum(taken is not None and name in taken.asked for taken, name in answers)
        return answered == self._spec.nodes

    def _merge(self, names: tuple[str, ...]) -> None:
        """Write the nodes' last answers, of the latest attempt."""
        nodes = self._nodes.directories()
        taken = [stacks for node in nodes if (stacks := read_stacks(node)) is not None]
        attempt = max((stacks.attempt for stacks in taken), default=1)
        current = [stacks for stacks in taken if stacks.attempt == attempt]
        answers = {answer.rank: answer for stacks in current for answer in stacks.ranks}
        missing = RankAnswer(rank=0, problem="silent" if nodes else "not ready")
        ranks = tuple(answers.get(r.rank, replace(missing, rank=r.rank)) for r in self._spec.ranks)
        taken_at = min((stacks.time for stacks in current), default=0.0)
        with contextlib.suppress(OSError):
            merged = TakenStacks(time=taken_at, attempt=attempt, ranks=ranks, asked=names)
            write_stacks(self._directory, merged)
