"""What somebody wants of the ranks of a run on an engine: passed on to the supervisors of its nodes, whose
answers become one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace

from nbdist.launch.jobs.merging import NodeJournals
from nbdist.model import RunSpec
from nbdist.store.control import request_interrupt, request_stacks
from nbdist.store.paths import NodeDirectory, RunDirectory
from nbdist.store.stacks import RankAnswer, TakenStacks, read_stacks, stacks_stamp, write_stacks

_PATIENCE = 6.0
"""Seconds that the nodes have to say where their ranks are. A rank has one; files may take their time."""

_BEGINNING = 1.5
"""Seconds that are waited for nodes that have not begun."""


@dataclass(slots=True)
class _Question:
    """Where the ranks are: by whom that is wanted, and the name by which each node was asked."""

    since: float
    names: list[str] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)


class NodeRequests:
    """``now`` is monotonic seconds."""

    def __init__(self, directory: RunDirectory, spec: RunSpec, nodes: NodeJournals) -> None:
        self._directory = directory
        self._spec = spec
        self._nodes = nodes
        self._question: _Question | None = None
        self._stamps: dict[str, object] = {}

    def interrupt(self, rank: int) -> None:
        """Let a rank get what Ctrl-C sends."""
        if 0 <= rank < self._spec.world_size:
            node = self._node(self._spec.ranks[rank].node_rank)
            if node is not None:
                with contextlib.suppress(OSError):
                    request_interrupt(node, rank)

    def stacks(self, name: str, now: float) -> None:
        """Find out where the ranks are, for the request of this name."""
        if self._question is None:
            self._question = _Question(now)
        self._question.names.append(name)

    def tick(self, now: float) -> None:
        """Write down what the nodes have said: when all have answered who were asked, or when one has taken
        stacks by itself (its ranks stall, or are told to end)."""
        stamps: dict[str, object] = {node.name: stacks_stamp(node) for node in self._nodes.directories()}
        if self._question is None:
            if stamps != self._stamps and any(stamps.values()):
                self._merge(())
        elif self._is_answered(self._question, now):
            names, self._question = tuple(self._question.names), None
            self._merge(names)
        else:
            return
        self._stamps = stamps

    def _is_answered(self, question: _Question, now: float) -> bool:
        """Ask who has not been asked; whether all have answered, or have had their time."""
        nodes = self._nodes.directories()
        for node in nodes:
            if node.name not in question.asked:
                with contextlib.suppress(OSError):
                    question.asked[node.name] = request_stacks(node)
        if now - question.since >= (_PATIENCE if nodes else _BEGINNING):
            return True
        said = [(read_stacks(node), question.asked.get(node.name)) for node in nodes]
        answered = sum(taken is not None and name in taken.asked for taken, name in said)
        return answered == self._spec.nodes

    def _merge(self, names: tuple[str, ...]) -> None:
        with contextlib.suppress(OSError):
            write_stacks(self._directory, replace(self._together(), asked=names))

    def _together(self) -> TakenStacks:
        """What the nodes have said last, of the latest attempt that one of them knows."""
        said = {node.name: read_stacks(node) for node in self._nodes.directories()}
        taken = [one for one in said.values() if one is not None]
        attempt = max((one.attempt for one in taken), default=1)
        current = [one for one in taken if one.attempt == attempt]
        answers = {answer.rank: answer for one in current for answer in one.ranks}
        missing = RankAnswer(rank=0, problem="silent" if said else "not ready")
        return TakenStacks(
            time=min((one.time for one in current), default=0.0),
            attempt=attempt,
            ranks=tuple(answers.get(r.rank, replace(missing, rank=r.rank)) for r in self._spec.ranks),
        )

    def _node(self, number: int) -> NodeDirectory | None:
        name = f"{self._nodes.life}-{number}"
        return next((node for node in self._nodes.directories() if node.name == name), None)
