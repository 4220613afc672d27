"""Other machines of a run, as seen by the supervisor of one.

Node 0 listens at the port behind the ranks' rendezvous, only on the given address; the others stay connected
to it. So they begin and end every attempt together, exchange the states of their ranks, and notice that a
machine has gone: at once when its supervisor ends, after ``PEER_TIMEOUT`` seconds of silence (a cable, a
power supply).
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.launch.lifetime import complain
from nbdist.launch.machines.connections import Callbacks, Connections, Peer
from nbdist.launch.machines.link import BadMessage, Message, check, plain
from nbdist.model import (
    Event,
    RankErrored,
    RankExited,
    RankStarted,
    RankState,
    Reason,
    Run,
    RunSpec,
    StopRequested,
)

_FOR_ALL = ("rank", "failed", "stop", "time is up", "still", "stacks", "where", "calls")
"""The messages that node 0 tells the others, too."""


class PeerNodes:
    """The agreement of the machines of a run. ``inbox`` collects messages for the supervisor; nothing here
    blocks. Node 0 has a line to each of the others, and forwards their messages."""

    def __init__(
        self,
        spec: RunSpec,
        keys: Sequence[str],
        selector: selectors.BaseSelector,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the lines. ``keys`` prove that a machine belongs to the run; all but node 0 have one."""
        self.inbox: list[Message] = []
        self.problem = Reason()
        self.hosts: tuple[str, ...] = ()
        self._spec = spec
        host, _, port = spec.master.rpartition(":")
        self._place = (host, int(port) + 1)
        self._hub = spec.node_rank == 0
        self._instance = os.urandom(8).hex()
        self._known = {0: host}
        # the last attempt that is ready here, begun by all, over here, over for all
        self._attempt = self._started = self._over = self._finished = 0
        self._gone = False
        callbacks = Callbacks(
            greet=self._join, take=self._take_safely, stranger=self._refuse_key, lost=self._lost
        )
        self.connections = Connections(
            self._place, keys, selector, callbacks, host=spec.host, clock=clock, report=complain
        )

    def open(self) -> None:
        """Listen on node 0. Raises LaunchError without the address or the port."""
        if self._hub:
            self.connections.listen()

    def ready(self, attempt: int) -> None:
        """Send all that this machine can start the ranks of the attempt."""
        self._attempt = attempt
        self.connections.tell({"kind": "ready", "attempt": attempt})
        self._consider()

    @property
    def gathered(self) -> bool:
        """True once all machines are ready for the attempt and ``hosts`` are known."""
        return self._started == self._attempt

    @property
    def awaited(self) -> tuple[int, ...]:
        """Missing machines, as far as known here."""
        if not self._hub:
            return () if self.connections.named else (0,)
        ready = {peer.node for peer in self.connections.named if peer.ready >= self._attempt}
        return tuple(node for node in range(1, self._spec.nodes) if node not in ready)

    def missing(self, limit: float) -> Reason:
        """Return the reason for the end of the run when the wait is over."""
        host, port = self._place
        trouble = plain(self.connections.last_trouble)
        return Reason(
            "nodes-missing", nodes=self.awaited, host=host, port=port, seconds=limit, trouble=trouble
        )

    def finished(self) -> None:
        """Send all that the ranks of this machine have finished in this attempt."""
        self._over = self._attempt
        self.connections.tell({"kind": "over", "attempt": self._attempt})
        self._consider()

    @property
    def all_finished(self) -> bool:
        """True once the ranks of all machines have finished."""
        return self._finished == self._attempt

    def local_event(self, event: Event, run: Run, error: str = "") -> None:
        """Send a local event to the others. ``error`` is the exception of an exited rank."""
        match event:
            case RankStarted(rank=rank):
                self._tell_rank(rank, RankState.RUNNING, None)
            case RankErrored(rank=rank):
                self._tell_failure(rank)
            case RankExited(rank=rank, code=code):
                state = run.ranks[rank].state
                # the reason first: a node with all exits waits for no more messages
                if state is RankState.FAILED:
                    self._tell_failure(rank, error)
                self._tell_rank(rank, state, code)
            case StopRequested(reason=reason):
                if not self._gone:
                    stop = Reason("on-node", why=reason, node=self._spec.node_rank)
                    self.connections.tell({"kind": "stop", "reason": stop.encode()})
            case _:
                pass

    def say(self, message: Message) -> None:
        """Send the others a message about this attempt."""
        self.connections.tell(message | {"attempt": self._attempt})

    def fail(self, reason: Reason) -> None:
        """End the run on all machines, for a reason outside the ranks."""
        self.say(_failed(reason, final=True))

    def tick(self) -> None:
        """Keep the lines alive."""
        calling = not (self._hub or self._gone or self._started or self.problem)
        self.connections.tick(calling=calling)

    def close(self, state: str) -> None:
        """Send the run's state and close the lines, so that their end is no failure."""
        self._gone = True
        self.connections.tell({"kind": "bye", "state": state})
        self.connections.close()

    def _join(self, peer: Peer) -> None:
        join = {
            "kind": "join",
            "node": self._spec.node_rank,
            "nodes": self._spec.nodes,
            "ranks": len(self._spec.here),
            "address": self._spec.host or peer.link.own_address(),
            "instance": self._instance,
        }
        self.connections.say(peer, join)

    def _take_safely(self, peer: Peer, message: Message) -> None:
        try:
            kind = check(message)
            if peer.node is None:
                self._take_from_stranger(peer, kind, message)
            else:
                self._take(peer, kind, message)
        except BadMessage as error:
            self.connections.lose(peer, f"it does not speak as this version of nbdist does ({error})")

    def _refuse_key(self, peer: Peer) -> None:
        address = peer.link.address()
        self.connections.part(peer, f"{address} has another program, or another NBDIST_TOKEN")
        if not self._hub:
            self.problem = Reason("other-program", address=address)

    def _tell_rank(self, rank: int, state: RankState, code: int | None) -> None:
        self.say({"kind": "rank", "rank": rank, "state": state.value, "code": code})

    def _tell_failure(self, rank: int, error: str = "") -> None:
        more = {"error": plain(error)} if error else {}
        reason = self._about("rank-failed-on-node", self._spec.node_rank, rank=rank, **more)
        self.say(_failed(reason, final=False))

    def _about(self, code: str, node: int, **more: Any) -> Reason:
        """Return a reason that names a machine."""
        return Reason(code, node=node, host=self.hosts[node] if self.hosts else "", **more)

    def _lost(self, peer: Peer, how: str) -> None:
        """Count a machine as gone when its line ends; before the start it may reconnect."""
        if peer.node is not None and self._started and not self._gone:
            self._gone_node(peer.node, how)

    def _gone_node(self, node: int, how: str) -> None:
        lost = [rank.rank for rank in self._spec.ranks if rank.node_rank == node]
        self.inbox += [{"kind": "rank", "rank": rank, "state": "lost", "code": None} for rank in lost]
        self.inbox.append(_failed(self._about("node-gone", node, how=how), final=True))
        if self._hub:
            self.connections.tell({"kind": "lost", "node": node, "how": how})

    def _take_from_stranger(self, peer: Peer, kind: str, message: Message) -> None:
        """Handle a message of a peer that has the key, but is not admitted."""
        if self._hub and kind == "join":
            self._admit(peer, message)
        elif not self._hub and kind == "welcome":
            peer.node = 0
            if self._attempt:
                self.connections.say(peer, {"kind": "ready", "attempt": self._attempt})
        elif not self._hub and kind == "refused":
            self.problem = Reason.decode(message["reason"])
            self.connections.part(peer, f"it refused this machine ({self.problem.code})")
        else:
            raise BadMessage(f"{kind} before it was let in")

    def _take(self, peer: Peer, kind: str, message: Message) -> None:
        if message.get("rank", 0) >= len(self._spec.ranks) or message.get("node", 0) >= self._spec.nodes:
            raise BadMessage(f"{kind} of a rank or a node that does not exist")
        if self._hub and kind in _FOR_ALL:
            self.connections.tell(message, but=peer)
        self._obey(peer, kind, message)

    def _obey(self, peer: Peer, kind: str, message: Message) -> None:
        late = message.get("attempt", self._attempt) != self._attempt
        match kind:
            case "rank" | "failed" | "still" | "stacks" | "where" | "calls" if not late:
                self.inbox.append(message)
            case "stop" | "time is up":
                self.inbox.append(message)
            case "lost" if not self._hub:
                self._gone_node(message["node"], message["how"])
            case "ready":
                peer.ready = message["attempt"]
                self._consider()
            case "over":
                peer.over = message["attempt"]
                self._consider()
            case "start" if not self._hub and len(message["hosts"]) == self._spec.nodes:
                self.hosts = tuple(message["hosts"])
                self._started = message["attempt"]
            case "end" if not self._hub and not late:
                self._finished = self._attempt
            case "bye":
                self.connections.part(peer, "")
                if self._finished != self._attempt:
                    reason = Reason("node-ended", node=peer.node or 0, state=message["state"])
                    self.inbox.append(_failed(reason, final=True))

    def _admit(self, peer: Peer, join: Message) -> None:
        """Admit a machine that has proven its key to node 0, or send it the reason."""
        node = join["node"]
        for other in self.connections.named:
            if (other.node, other.instance) == (node, join["instance"]) and not self._started:
                self.connections.part(other, "")  # a former line, broken unseen
        if reason := self._objection(join):
            self.connections.say(peer, {"kind": "refused", "reason": reason.encode()})
            self.connections.part(peer, f"node {node} was refused ({reason.code})")
            return
        peer.node, peer.instance = node, join["instance"]
        self._known[node] = join["address"]
        self.connections.say(peer, {"kind": "welcome"})

    def _objection(self, join: Message) -> Reason:
        """Return the reason to refuse a machine; none without one."""
        node, ranks, nodes = join["node"], join["ranks"], join["nodes"]
        here = {"nodes_here": self._spec.nodes, "ranks_here": len(self._spec.here)}
        if (nodes, ranks) != tuple(here.values()):
            return Reason("nodes-differ", node=node, nodes=nodes, ranks=ranks, **here)
        if not node < nodes:
            return Reason("no-such-node", node=node, nodes=nodes, last=nodes - 1)
        if node == 0 or node in {peer.node for peer in self.connections.named}:
            return Reason("node-taken", node=node, host=self._known[node])
        return Reason("begun-without") if self._started else Reason()

    def _consider(self) -> None:
        """Begin or end an attempt on node 0, when all machines are ready for it."""
        others = self.connections.named
        if not self._hub or len(others) < self._spec.nodes - 1:
            return
        if self._started < self._attempt and all(peer.ready == self._attempt for peer in others):
            known = tuple(self._known[node] for node in range(self._spec.nodes))
            self.hosts = self._spec.addresses or known
            self._started = self._attempt
            self.connections.tell({"kind": "start", "attempt": self._attempt, "hosts": list(self.hosts)})
        over = all(peer.over == self._attempt for peer in others)
        if over and self._over == self._attempt == self._started:
            self._finished = self._attempt
            self.connections.tell({"kind": "end", "attempt": self._attempt})


def _failed(reason: Reason, *, final: bool) -> Message:
    return {"kind": "failed", "reason": reason.encode(), "final": final}
