"""The port of node 0: what strangers can do there, without the key and with it. A run goes on beside them."""

from __future__ import annotations

import json
import resource
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.launch.machines import link as line
from nbdist.launch.machines.connections import HANDSHAKE_TIMEOUT, in_the_way
from nbdist.launch.machines.coordinator import Coordinator
from nbdist.launch.machines.link import Link, LinkClosed, Message, WrongKey
from nbdist.launch.machines.nodes import PeerNodes
from nbdist.launch.run_policy import RunPolicy
from nbdist.model import Event, RankState, Reason, RemoteRank, RunSpec, encode_event
from nbdist.store.paths import RunDirectory
from nbdist.text import reason_text
from tests.fakes.runs import STARTED, a_spec

KEY = "the key of a run"


class Machine:
    """One of two machines of a run with a rank each, whose supervisor looks when the test lets it."""

    def __init__(self, node: int, master: str, folder: Path, *, late: Callable[[], float]) -> None:
        ranks = tuple(replace(rank, node_rank=rank.rank) for rank in a_spec().ranks)
        self.spec: RunSpec = replace(a_spec(), nodes=2, node_rank=node, ranks=ranks, master=master)
        self.events: list[Event] = []
        self.selector = selectors.DefaultSelector()
        self.policy = RunPolicy(
            self.spec, record=self.events.append, send=lambda *_: None, wall_clock=lambda: 1.0
        )
        for event in STARTED:
            self.policy.know(event)
        clock = lambda: time.monotonic() + late()  # noqa: E731
        self.nodes = PeerNodes(self.spec, [KEY], self.selector, clock=clock)
        self.nodes.open()
        self.coordinator = Coordinator(
            self.spec, self.policy, self.nodes, RunDirectory(folder), look=self.look
        )

    def look(self) -> None:
        for key, _ in self.selector.select(0.002):
            key.data()
        self.coordinator.tick(time.monotonic())

    @property
    def undisturbed(self) -> bool:
        return (self.policy.peer_failure, self.policy.stop_reason, self.policy.timed_out) == (
            None,
            None,
            False,
        )

    def close(self) -> None:
        self.nodes.close("finished")
        self.selector.close()


class Both:
    """Node 0, node 1, and what a stranger may do beside them."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.late = 0.0
        self.folder = folder
        self.machines: list[Machine] = []
        self.sockets: list[socket.socket] = []
        self.hub = self.start(0)

    def start(self, node: int) -> Machine:
        master = f"127.0.0.1:{self.port - 1}"
        self.machines.append(Machine(node, master, self.folder, late=lambda: self.late))
        return self.machines[-1]

    def gather(self, limit: float = 20.0) -> Machine:
        """Let node 1 come, and both begin."""
        node = self.start(1)
        for machine in (self.hub, node):
            machine.nodes.ready(1)
        self.until(lambda: self.hub.nodes.gathered and node.nodes.gathered, limit)
        return node

    def look(self) -> None:
        for machine in self.machines:
            machine.look()

    def until(self, condition: Callable[[], object], limit: float = 20.0) -> None:
        deadline = time.monotonic() + limit
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            self.look()

    def dial(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port))
        connection.setblocking(False)
        self.sockets.append(connection)
        return connection

    def stranger(self) -> Holder:
        """Return a holder of the key that has met node 0."""
        stranger = Holder(self.dial())
        self.until(lambda: stranger.met(self.look))
        return stranger

    def ends(self, connection: socket.socket) -> None:
        """Wait until node 0 has closed the connection."""
        self.until(lambda: closed(connection))

    def goes_on(self) -> bool:
        """Return whether the run, which has begun, is undisturbed."""
        self.look()
        node = self.machines[1]
        connected = self.hub.nodes.connections.named and node.nodes.connections.named
        return bool(connected) and self.hub.undisturbed and node.undisturbed


class Holder(Link):
    """A caller that has the key, and says anything with it."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, KEY, caller=True)
        self.connection = connection
        self.heard: list[Message] = []
        self.flush()

    def met(self, look: Callable[[], None]) -> bool:
        look()
        self.heard += self.receive()
        return self._session is not None

    def say(self, body: bytes) -> None:
        """Send a message of these bytes, with its proof."""
        assert self._session is not None
        mac = line._mac(self._session, True, self._sent_count, body)
        self._sent_count += 1
        self._waiting += mac + b" " + body + b"\n"
        self.flush()

    def hears(self, look: Callable[[], None]) -> bool:
        """Return whether ``heard`` has a message, or the line has ended."""
        look()
        try:
            self.heard += self.receive()
        except LinkClosed:
            return True
        return bool(self.heard)


class Waiting:
    """A connection that has proven nothing."""

    def __init__(self, address: str, since: float) -> None:
        with socket.socket() as connection:
            self.link = Link(connection, KEY, caller=False, address=address)
        self.since = since


def closed(connection: socket.socket) -> bool:
    try:
        while data := connection.recv(65_536):
            assert len(data) < 65_536
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def join(**changes: object) -> Message:
    sent = {"kind": "join", "node": 1, "nodes": 2, "ranks": 1, "address": "127.0.0.1", "instance": "another"}
    return sent | changes


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path)
    yield made
    for machine in made.machines:
        machine.close()
    for connection in made.sockets:
        connection.close()


ORDERS: list[Message] = [
    {"kind": "ready", "attempt": 1},
    {"kind": "failed", "attempt": 1, "reason": "no reason", "final": True},
    {"kind": "stop", "reason": "no reason"},
    {"kind": "time is up", "attempt": 1},
    {"kind": "rank", "attempt": 1, "rank": 1, "state": "failed", "code": 1},
    {"kind": "lost", "node": 1, "how": "no reason"},
    {"kind": "bye", "state": "failed"},
]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({}, "node 1 is already here (127.0.0.1): use another --node-rank", id="a second node 1"),
        pytest.param({"node": 0}, "node 0 is already here (127.0.0.1): use another", id="a second node 0"),
        pytest.param({"node": 2}, "there is no node 2 of 2: use a --node-rank from 1 to 1", id="a node 2"),
        pytest.param({"nodes": 3}, "node 1 was asked for 3 nodes of 1 ranks, node 0", id="of three nodes"),
        pytest.param({"ranks": 4}, "node 1 was asked for 2 nodes of 4 ranks, node 0", id="with four ranks"),
    ],
)
def test_a_refused_machine_learns_why_and_is_not_obeyed(both: Both, changes: Message, reason: str) -> None:
    both.gather()
    stranger = both.stranger()

    for message in (join(**changes), *ORDERS):
        stranger.send(message)
    both.until(lambda: stranger.hears(both.look))

    (message,) = stranger.heard
    assert message["kind"] == "refused"
    assert reason_text(Reason.decode(message["reason"])).startswith(reason)
    both.ends(stranger.connection)
    assert both.goes_on()
    assert both.hub.events == both.machines[1].events == []


def test_a_caller_that_has_not_joined_is_not_obeyed(both: Both) -> None:
    both.gather()

    for order in ORDERS:
        stranger = both.stranger()
        stranger.send(order)
        both.ends(stranger.connection)

    assert both.goes_on()


def test_a_machine_that_comes_after_the_begin_is_told_so(both: Both) -> None:
    node = both.gather()
    node.nodes.close("stopped")
    both.until(lambda: not both.hub.nodes.connections.named)

    stranger = both.stranger()
    stranger.send(join())
    both.until(lambda: stranger.hears(both.look))

    assert stranger.heard[0]["reason"] == {"code": "begun-without"}


def test_a_refused_node_ends_with_that_reason_and_does_not_call_again(both: Both) -> None:
    both.gather()
    second = both.start(1)
    second.nodes.ready(1)

    both.until(lambda: second.nodes.problem)
    both.late += 60  # as long as it likes
    for machine in both.machines:
        machine.nodes.say({"kind": "where"})
    second.look()

    assert second.nodes.problem == Reason("node-taken", node=1, host="127.0.0.1")
    assert not second.nodes.connections.named
    second.nodes.close("failed")
    assert both.hub.undisturbed


def test_a_node_whose_line_broke_unseen_comes_again_before_the_begin(both: Both) -> None:
    first, again = both.stranger(), both.stranger()
    first.send(join(instance="one"))
    both.until(lambda: first.hears(both.look))

    again.send(join(instance="one"))
    both.until(lambda: again.hears(both.look))

    assert [message["kind"] for message in again.heard] == ["welcome"]
    both.ends(first.connection)


def test_silent_connections_keep_no_node_out(both: Both) -> None:
    silent = [both.dial() for _ in range(300)]
    both.until(lambda: sum(map(closed, silent)) > 100)

    both.gather(HANDSHAKE_TIMEOUT - 1)

    assert both.goes_on()


def test_the_address_that_has_most_connections_makes_room() -> None:
    crowd = [Waiting("10.0.0.9", 1.0), Waiting("10.0.0.1", 0.0), Waiting("10.0.0.9", 2.0)]

    assert in_the_way(crowd) is crowd[0]


def test_where_no_descriptor_is_left_a_stranger_makes_room(both: Both) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    silent = [both.dial() for _ in range(40)]
    both.look()
    highest = max(connection.fileno() for connection in silent)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 12, before[1]))

    try:
        both.until(lambda: sum(map(closed, silent)) > 3)
        late = silent.pop()
        late.close()
        both.gather(HANDSHAKE_TIMEOUT - 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert both.goes_on()


def test_a_connection_that_proves_nothing_is_closed_in_time(both: Both) -> None:
    silent, met = both.dial(), both.stranger()
    both.look()

    both.late += HANDSHAKE_TIMEOUT + 1

    both.ends(silent)
    both.ends(met.connection)


NO_KEY = [
    b"",
    b"\n",
    b"\0" * 5_000,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xff" * 500,
    b"x" * 70_000,
    b"\n" * 30_000,
    b"[" * 30_000 + b"\n",
    b"9" * 5_000 + b"\n",
    b"nbdist 1 " + b"0" * 32 + b"\n",
    b"nbdist 2 \n",
    b"nbdist 2 " + b"0" * 60_000 + b"\n",
    b"nbdist 2 " + b"\xff" * 32 + b"\n",
    b"nbdist 2 " + b"0" * 32 + b"\n" + b"\n",
    b"nbdist 2 " + b"0" * 32 + b"\n" + b" {}\n",
    b"nbdist 2 " + b"0" * 32 + b"\n" + b"\xff\xfe {}\n",
    b"nbdist 2 " + b"0" * 32 + b"\n" + b"0" * 64 + b" " + json.dumps(join()).encode() + b"\n",
    b"nbdist 2 " + b"0" * 32 + b"\n" + b"0" * 64 + b" " + b"[" * 30_000 + b"\n",
]


def test_bytes_without_the_key_end_that_connection_alone(both: Both) -> None:
    both.gather()

    for data in NO_KEY:
        connection = both.dial()
        connection.setblocking(True)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        connection.setblocking(False)
        both.ends(connection)

    assert both.goes_on()


HOSTILE = [
    "null", "true", "-1", "7", "2147483648", "1e3", "1e999", "-1e999", "NaN", "Infinity", "1" + "0" * 400,
    '""', '"x"', '"\\ud800"', '"' + "x" * 50_000 + '"', "[]", "{}", '["x"]', '[null]', '{"0": null}',
    '{"0": {"name": []}}', "[" * 500 + "]" * 500,
]  # fmt: skip

COLLECTIVE = {"name": "all_reduce", "number": 1, "over": True, "begun": 1.0, "last": 1, "members": [0, 1]}
SAID: list[Message] = [
    *ORDERS,
    join(),
    {"kind": "welcome"},
    {"kind": "alive"},
    {"kind": "refused", "reason": "x"},
    {"kind": "start", "attempt": 1, "hosts": ["127.0.0.1", "127.0.0.1"]},
    {"kind": "over", "attempt": 1},
    {"kind": "end", "attempt": 1},
    {"kind": "where", "attempt": 1},
    {"kind": "still", "attempt": 1, "node": 1, "idle": 1.0, "still": 1.0, "waits": True},
    {
        "kind": "stacks",
        "attempt": 1,
        "rank": 1,
        "text": "x",
        "problem": "",
        "blocked": False,
        "collectives": {"0": COLLECTIVE | {"on_device": False}},
    },
]


def spoiled(message: Message) -> Iterator[str]:
    """The message with each of its fields as nobody expects it, and without."""
    for name in message:
        yield json.dumps({key: value for key, value in message.items() if key != name})
        for hostile in HOSTILE:
            yield json.dumps(message | {name: "@"}).replace('"@"', hostile)


@pytest.mark.parametrize("message", SAID, ids=[str(message["kind"]) for message in SAID])
def test_no_field_of_a_message_ends_a_supervisor(both: Both, message: Message) -> None:
    bodies = list(spoiled(message))
    both.hub.nodes.ready(1)

    for body in bodies:
        for admitted in (False, True):
            stranger = both.stranger()
            if admitted:
                stranger.send(join())
                both.until(lambda stranger=stranger: stranger.hears(both.look))
                assert stranger.heard[0]["kind"] == "welcome"
            stranger.say(body.encode())
            both.look()
            both.look()
            stranger.connection.close()

    # what became of it can be written down and shown, and the port is still there
    for event in both.hub.events:
        assert encode_event(event)
    recorded = [event for event in both.hub.events if isinstance(event, RemoteRank)]
    assert {event.rank for event in recorded} <= {1}
    assert RankState.PENDING not in {event.state for event in recorded}
    (both.hub.policy.peer_failure or "").encode()
    both.stranger()


def test_a_conversation_that_was_recorded_cannot_be_had_again(both: Both) -> None:
    proxy = socket.create_server(("127.0.0.1", 0))
    caller = Link(socket.create_connection(proxy.getsockname()), KEY, caller=True)
    inside, _ = proxy.accept()
    outside = both.dial()
    recorded = b""
    caller.send(join(instance="recorded"))
    caller.send({"kind": "stop", "reason": "replayed"})

    def pass_on() -> bool:
        nonlocal recorded
        both.look()
        inside.setblocking(False)
        for come, gone in ((inside, outside), (outside, inside)):
            try:
                data = come.recv(65_536)
            except BlockingIOError:
                continue
            recorded += data if come is inside else b""
            gone.sendall(data)
        caller.receive()
        return both.hub.policy.stop_reason is not None

    both.until(pass_on)
    for end in (caller, inside, proxy):
        end.close()
    outside.close()
    fresh = Both(both.folder)
    again = fresh.dial()
    again.sendall(recorded)

    fresh.ends(again)

    assert b"join" in recorded
    assert fresh.hub.undisturbed
    again.close()
    fresh.hub.close()


def test_node_0_proves_nothing_to_a_caller_that_has_proven_nothing(both: Both) -> None:
    connection = both.dial()
    connection.sendall(b"nbdist 2 " + b"0" * 32 + b"\n")
    for _ in range(20):
        both.look()

    received = connection.recv(65_536)

    assert received.count(b"\n") == 1
    assert received.startswith(b"nbdist 2 ")


def test_a_node_with_another_key_is_told_at_once(both: Both) -> None:
    other = Link(both.dial(), "another key", caller=True)
    other.send(join())

    def refused() -> bool:
        both.look()
        try:
            other.receive()
        except WrongKey:
            return True
        return False

    both.until(refused)
