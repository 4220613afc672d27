"""The other machines of a run, as the supervisor of one sees them.

Node 0 listens at the port behind the one where the ranks meet, on the address that was given and on no
other; the others connect to it and stay connected. Over these lines they begin and end every attempt
together, say what becomes of their ranks, and notice that a machine has gone: at once when its supervisor
ends, after ``SILENCE`` seconds when nothing comes from it any more (a cable, a power supply).
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nbdist.launch.machines.lines import Ears, Lines, Peer
from nbdist.launch.machines.link import Message
from nbdist.model import Event, RankErrored, RankExited, RankStarted, RankState, Run, RunSpec, StopRequested


@dataclass(slots=True)
class Told:
    """What the supervisor is to do, as the other machines have it. Read and cleared by it."""

    events: list[tuple[int, RankState, int | None]] = field(default_factory=list)
    failures: list[tuple[str, bool]] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    time_is_up: bool = False
    words: list[Message] = field(default_factory=list)
    """About ranks that do nothing (``stalls_together``)."""


class Nodes:
    """What the machines of a run agree on. ``told`` collects what came; nothing here waits.

    On node 0 there is a line to each of the others, elsewhere the one to node 0, which passes on what the
    others say.
    """

    def __init__(
        self,
        spec: RunSpec,
        key: str,
        selector: selectors.BaseSelector,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.told = Told()
        self.problem = ""
        self.hosts: tuple[str, ...] = ()
        self._spec = spec
        host, _, port = spec.master.rpartition(":")
        self._place = (host, int(port) + 1)
        self._hub = spec.node_rank == 0
        self._known: dict[int, str] = {}
        # the last attempt that was called ready here, that all began, that is over here, that is over for all
        self._attempt = self._started = self._over = self._finished = 0
        self._gone = False
        ears = Ears(
            greet=self._greet, take=self._take_safely, stranger=self._refuse_stranger, lost=self._lost
        )
        self._lines = Lines(self._place, key, selector, ears, host=spec.host, clock=clock)

    def open(self) -> None:
        """Begin to listen, on node 0. Raises LaunchError where the address or the port cannot be had."""
        if self._hub:
            self._lines.listen()

    def ready(self, attempt: int) -> None:
        """This machine could start the ranks of the attempt."""
        self._attempt = attempt
        self._lines.tell({"kind": "ready", "attempt": attempt})
        self._consider()

    @property
    def gathered(self) -> bool:
        """Whether all machines are ready for the attempt, and ``hosts`` are theirs."""
        return self._started == self._attempt

    @property
    def awaited(self) -> tuple[int, ...]:
        """The machines that are not there yet, as far as this one can know."""
        if not self._hub:
            return () if any(peer.node is not None for peer in self._lines.peers) else (0,)
        there = {peer.node for peer in self._lines.peers if peer.ready >= self._attempt and not peer.left}
        return tuple(node for node in range(1, self._spec.nodes) if node not in there)

    def missing(self, limit: float) -> str:
        """What to say when the wait is over."""
        host, port = self._place
        nodes = ", ".join(map(str, self.awaited)) or "the others"
        where = f"node {nodes} did not come to {host}:{port} within {limit:g} s"
        trouble = f" (last: {self._lines.last_trouble})" if self._lines.last_trouble else ""
        return f"{where}{trouble}: start the same there, with its --node-rank; --wait 30m waits longer"

    def succeeded(self) -> None:
        """The ranks of this machine have all succeeded, in this attempt."""
        self._over = self._attempt
        self._lines.tell({"kind": "over", "attempt": self._attempt})
        self._consider()

    @property
    def all_succeeded(self) -> bool:
        """Whether those of the others have, too."""
        return self._finished == self._attempt

    @property
    def held(self) -> tuple[int, ...]:
        """The machines that are there, and whose nbdist says nothing."""
        return self._lines.held()

    @property
    def alone(self) -> bool:
        """Whether nobody is left to wait for."""
        return not self._lines.named

    def local_event(self, event: Event, run: Run, error: str = "") -> None:
        """Tell the others what has happened here. ``error`` is the exception of a rank that exited."""
        match event:
            case RankStarted(rank=rank):
                self._tell_rank(rank, RankState.RUNNING, None)
            case RankErrored(rank=rank):
                self._tell_failure(rank)
            case RankExited(rank=rank, code=code):
                state = run.ranks[rank].state
                # the reason first: who knows that all ranks have exited waits for nothing more
                if state is RankState.FAILED:
                    self._tell_failure(rank, f": {error}" if error else "")
                self._tell_rank(rank, state, code)
            case StopRequested(reason=reason):
                if not self._gone:
                    self._lines.tell({"kind": "stop", "reason": f"{reason} (node {self._spec.node_rank})"})
            case _:
                pass

    def say(self, message: Message) -> None:
        """Tell the others something about the ranks of this attempt."""
        self._lines.tell(message | {"attempt": self._attempt})

    def fail(self, reason: str) -> None:
        """This machine ends the run for a reason that no rank has."""
        self.say({"kind": "failed", "reason": reason, "final": True})

    def tick(self) -> None:
        """Let time pass."""
        self._lines.tick(calling=not self._hub and not self._gone)

    def close(self, state: str) -> None:
        """Say good-bye, so that the end of the line means nothing bad."""
        self._gone = True
        self._lines.tell({"kind": "bye", "state": state})
        self._lines.close()

    def _greet(self, peer: Peer) -> None:
        """A line is there: node 0 waits for who it is, the others say it."""
        if self._hub:
            self._lines.say(peer, {"kind": "welcome"})
            return
        address = self._spec.host or peer.link.own_address()
        node, nodes, ranks = self._spec.node_rank, self._spec.nodes, len(self._spec.here)
        join = {"kind": "join", "node": node, "nodes": nodes, "ranks": ranks, "address": address}
        self._lines.say(peer, join)

    def _take_safely(self, peer: Peer, message: Message) -> None:
        try:
            self._take(peer, message)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            # it has the key, and speaks differently
            self._lines.lose(peer, f"its nbdist is of another version ({type(error).__name__})")

    def _refuse_stranger(self, peer: Peer) -> None:
        address = peer.link.address()
        self._lines.part(peer, f"{address} has another program, or another NBDIST_TOKEN")
        if not self._hub:
            self.problem = (
                f"node 0 at {address} runs another program, or has another NBDIST_TOKEN: start the same on "
                "each node, or give all of them one NBDIST_TOKEN"
            )

    def _tell_rank(self, rank: int, state: RankState, code: int | None) -> None:
        self.say({"kind": "rank", "rank": rank, "state": state.value, "code": code})

    def _tell_failure(self, rank: int, how: str = "") -> None:
        node = self._spec.node_rank
        where = f"on node {node} ({self.hosts[node]})" if self.hosts else f"on node {node}"
        reason = f"rank {rank} {where} failed{how}"
        self.say({"kind": "failed", "reason": reason, "final": False})

    def _lost(self, peer: Peer, how: str) -> None:
        """The line to a machine has ended."""
        if peer.node is None or peer.left or self._gone:
            return
        if not self._started:
            return  # it may come again: nothing has begun
        self._gone_node(peer.node, how)

    def _gone_node(self, node: int, how: str) -> None:
        where = f" ({self.hosts[node]})" if self.hosts else ""
        reason = f"node {node}{where} has gone: {how}"
        for rank in self._spec.ranks:
            if rank.node_rank == node:
                self.told.events.append((rank.rank, RankState.LOST, None))
        self.told.failures.append((reason, True))
        self._lines.tell({"kind": "lost", "node": node, "how": how})

    def _take(self, peer: Peer, message: Message) -> None:
        kind = message.get("kind")
        if kind == "join" and self._hub and peer.node is None:
            self._welcome(peer, message)
            return
        if kind == "welcome" and not self._hub and peer.node is None:
            peer.node = 0
            if self._attempt:
                self._lines.say(peer, {"kind": "ready", "attempt": self._attempt})
            return
        if kind == "refused":
            self.problem = str(message["reason"])
        if peer.node is None:
            return
        if self._hub and kind in ("rank", "failed", "stop", "time is up", "still", "stacks", "where"):
            self._lines.tell(message, but=peer)
        self._obey(peer, message)

    def _obey(self, peer: Peer, message: Message) -> None:
        late = message.get("attempt", self._attempt) != self._attempt
        match message.get("kind"):
            case "rank" if not late:
                state = RankState(message["state"])
                self.told.events.append((int(message["rank"]), state, message["code"]))
            case "failed" if not late:
                self.told.failures.append((str(message["reason"]), bool(message["final"])))
            case "still" | "stacks" | "where" if not late:
                self.told.words.append(message)
            case "stop":
                self.told.stops.append(str(message["reason"]))
            case "time is up":
                self.told.time_is_up = True
            case "lost":
                self._gone_node(int(message["node"]), str(message["how"]))
            case "ready":
                peer.ready = int(message["attempt"])
                self._consider()
            case "over":
                peer.over = int(message["attempt"])
                self._consider()
            case "start" if not self._hub:
                self.hosts = tuple(message["hosts"])
                self._started = int(message["attempt"])
            case "end" if not self._hub and not late:
                self._finished = self._attempt
            case "bye":
                peer.left = True
                if message["state"] != "succeeded" and self._finished != self._attempt:
                    self.told.failures.append((f"node {peer.node} ended: {message['state']}", True))

    def _welcome(self, peer: Peer, message: Message) -> None:
        """Node 0: a machine that has the key says which one it is."""
        node, ranks, nodes = int(message["node"]), int(message["ranks"]), int(message["nodes"])
        here = len(self._spec.here)
        reason = ""
        if not self._started:
            # it may come again: its last line broke unseen
            self._lines.part_from_silent(node)
        if (nodes, ranks) != (self._spec.nodes, here):
            reason = (
                f"node {node} was asked for {nodes} nodes of {ranks} ranks, node 0 for {self._spec.nodes} of "
                f"{here}: write the same on each"
            )
            self.problem = reason
        elif node in {other.node for other in self._lines.peers} or node == 0:
            reason = f"there is a node {node} already: give each machine a --node-rank of its own"
        elif self._started:
            reason = "the run has begun without it"
        if reason:
            peer.node = node
            peer.left = True
            self._lines.say(peer, {"kind": "refused", "reason": reason})
            return
        peer.node = node
        self._known[node] = str(message["address"])

    def _consider(self) -> None:
        """Node 0: begin or end an attempt when all are as far."""
        if not self._hub:
            return
        others = self._lines.named
        if len(others) < self._spec.nodes - 1:
            return
        if self._started < self._attempt and all(peer.ready == self._attempt for peer in others):
            known = [self._place[0], *(self._known[node] for node in range(1, self._spec.nodes))]
            self.hosts = self._spec.addresses or tuple(known)
            self._started = self._attempt
            self._lines.tell({"kind": "start", "attempt": self._attempt, "hosts": list(self.hosts)})
        if self._over == self._attempt == self._started and all(
            peer.over == self._attempt for peer in others
        ):
            self._finished = self._attempt
            self._lines.tell({"kind": "end", "attempt": self._attempt})
