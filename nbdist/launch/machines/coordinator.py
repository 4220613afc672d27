"""Coordination of a run on several machines: this one's reaction to the others' messages, and its waits."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from nbdist.launch.machines.link import Message
from nbdist.launch.machines.nodes import PeerNodes
from nbdist.launch.rank_process import Reservation
from nbdist.launch.run_policy import Outcome, RunPolicy
from nbdist.launch.stalls.across_machines import StallExchange
from nbdist.model import Event, NodesAwaited, RankExited, RankState, Reason, RemoteRank, Rendezvous, RunSpec
from nbdist.model.events import RunState
from nbdist.store.paths import NodeDirectory, RunDirectory
from nbdist.store.reports import read_error

_PATIENCE = 1.0
"""Seconds between the starts of machines before the run shows the awaited ones."""

_ERROR_ROOM = 200

_LAST_WORDS = 5.0
"""Seconds after a failure for the others to send the ends of their ranks."""

_ORDER = ("rank", "stop", "time is up", "still", "stacks", "where", "calls", "failed")
"""The order of messages received at once: a failure needs the ends that it explains."""

_SIOCGIFADDR = 0x8915  # netdevice(7)


class Coordinator:
    """The coupling of the machines' run policies. ``look`` is one turn of the supervisor, and calls
    ``tick``."""

    def __init__(
        self,
        spec: RunSpec,
        policy: RunPolicy,
        nodes: PeerNodes,
        directory: RunDirectory,
        *,
        look: Callable[[], None],
    ) -> None:
        self._spec = spec
        self._policy = policy
        self._nodes = nodes
        self._directory = directory
        self._look = look
        self._obeying = False
        self._said_time_is_up = False
        self._held: tuple[int, ...] = ()
        shared = isinstance(directory, NodeDirectory)
        self.stalls = StallExchange(spec, nodes.say, lambda: policy.run, shared=shared)

    def reservation(self) -> Reservation:
        """Return the ranks' rendezvous. Raises LaunchError if the port of node 0 is taken."""
        host, _, port = self._spec.master.rpartition(":")
        if self._spec.node_rank == 0:
            return Reservation(host, int(port))
        return Reservation.inherited(None, host, int(port))

    def gather(self, attempt: int) -> Outcome | None:
        """Wait until every machine is ready for the attempt; return the outcome if that fails."""
        self._nodes.ready(attempt)
        begin = time.monotonic()
        recorded: tuple[int, ...] = ()
        while not self._nodes.gathered:
            if (ended := self._ended()) is not None:
                return ended
            waited = time.monotonic() - begin
            if waited > self._spec.wait:
                reason = self._nodes.missing(self._spec.wait)
                self._nodes.fail(reason)
                return Outcome.failed(reason)
            if waited > _PATIENCE and self._nodes.awaited != recorded:
                recorded, now = self._nodes.awaited, time.time()
                self._policy.record(
                    NodesAwaited(time=now, nodes=recorded, until=now + self._spec.wait - waited)
                )
            self._look()
        if self._policy.stop_reason is not None:  # without a wait: the others were ready at once
            return Outcome.stopped(self._policy.stop_reason)
        self._policy.record(NodesAwaited(time=time.time(), nodes=(), until=0.0, hosts=self._nodes.hosts))
        # by default gloo uses the interface of the machine's name, often a loopback
        name = interface_of(self._nodes.hosts[self._spec.node_rank])
        if name and "GLOO_SOCKET_IFNAME" not in os.environ:
            os.environ["GLOO_SOCKET_IFNAME"] = name
        return None

    def complete(self, rendezvous: Rendezvous) -> Rendezvous:
        """Return the rendezvous with the addresses of all machines."""
        return replace(rendezvous, hosts=self._nodes.hosts)

    def settle(self, outcome: Outcome, look: Callable[[], None]) -> Outcome:
        """Return the outcome, once the ranks of all machines are over."""
        if outcome.state is not RunState.FINISHED:
            return outcome
        self._nodes.finished()
        while not self._nodes.all_finished:
            if (ended := self._ended()) is not None:
                return ended
            look()
        return outcome

    def local_event(self, event: Event) -> None:
        """Send an event of this machine to the others."""
        if self._obeying:
            return
        if self._policy.timed_out and not self._said_time_is_up:
            # the others' clocks may be late, and the ends of these ranks are no failure
            self._said_time_is_up = True
            self._nodes.say({"kind": "time is up"})
        self._nodes.local_event(event, self._policy.run, self._error_of(event))

    def _error_of(self, event: Event) -> str:
        """Return the exception of an exited rank in one line: the others cannot read its report."""
        if not isinstance(event, RankExited):
            return ""
        report = read_error(self._directory.rank(event.rank, self._policy.run.attempt).error)
        return "" if report is None else f"{report.type}: {report.message}".splitlines()[0][:_ERROR_ROOM]

    def tick(self, now: float) -> None:
        """Apply the deadlines, and obey the others' messages."""
        self._nodes.tick()
        inbox, self._nodes.inbox = self._nodes.inbox, []
        self._obeying = True
        for message in sorted(inbox, key=lambda message: _ORDER.index(message["kind"])):
            self._obey(message, now)
        self._obeying = False
        if self._nodes.gathered and (held := self._nodes.connections.held()) != self._held:
            self._held = held
            self._policy.record(NodesAwaited(time=time.time(), nodes=self._held, until=0.0))

    def _obey(self, message: Message, now: float) -> None:
        match message["kind"]:
            case "rank":
                self._record(message["rank"], RankState(message["state"]), message["code"])
            case "stop":
                # this may be an echo, and a second stop would hasten the end
                if self._policy.stop_reason is None:
                    self._policy.stop(Reason.decode(message["reason"]), now)
            case "time is up":
                self._said_time_is_up = True
                self._policy.time_is_up(now)
                if not self._policy.timed_out:  # the ranks of this machine are done
                    self._policy.peer_failed(self._spec.timeout_reason, now, final=True)
            case "failed":
                self._policy.peer_failed(Reason.decode(message["reason"]), now, final=message["final"])
            case _:
                self.stalls.hear(message)

    def close(self, outcome: Outcome) -> Outcome:
        """Wait a moment for the ends of the others' ranks, and part; return the final outcome."""
        deadline = time.monotonic() + _LAST_WORDS
        if outcome.state is not RunState.FINISHED:
            while self._nodes.connections.named and not self._all_over() and time.monotonic() < deadline:
                self._look()
        self._nodes.close(outcome.state.value)
        known = self._policy.peer_failure
        if known is not None and known.extends(outcome.reason):
            return replace(outcome, reason=known)
        return outcome

    def _all_over(self) -> bool:
        ranks = self._policy.run.ranks
        return all(rank.state.terminal or rank.state is RankState.PENDING for rank in ranks)

    def _ended(self) -> Outcome | None:
        """Return the outcome, if there is no reason to wait longer."""
        if self._nodes.problem:
            return Outcome.failed(self._nodes.problem)
        if self._policy.stop_reason is not None and not self._policy.leaves_by_itself:
            return Outcome.stopped(self._policy.stop_reason)
        if self._policy.timed_out:
            return Outcome.failed(self._spec.timeout_reason)
        if self._policy.peer_failure is not None:
            return Outcome.failed(self._policy.peer_failure)
        return None

    def _record(self, rank: int, state: RankState, code: int | None) -> None:
        """Record the state of another machine's rank."""
        known = self._policy.run.ranks[rank]
        if known.spec.node_rank == self._spec.node_rank or known.state.terminal or state is known.state:
            return
        if known.state is RankState.PENDING and state is not RankState.LOST:
            self._policy.record(RemoteRank(time=time.time(), rank=rank, state=RankState.RUNNING))
        if state is not RankState.RUNNING:
            self._policy.record(RemoteRank(time=time.time(), rank=rank, state=state, code=code))


def interface_of(address: str) -> str:
    """Return the network interface with this IPv4 address; empty if unknown."""
    if sys.platform != "linux":
        return ""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has no address
            if socket.inet_ntoa(reply[20:24]) == address:
                return name
    return ""
