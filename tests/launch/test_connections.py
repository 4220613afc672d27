"""The line between two supervisors: what gets through it, and what does not."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator

import pytest

from nbdist.launch.machines.link import Link, LinkClosed, Message, WrongKey
from nbdist.processes import wait_for

KEY = "the key of a run"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def linked(ends: tuple[socket.socket, socket.socket]) -> tuple[Link, Link]:
    """Make both ends of a line."""
    caller, other = Link(ends[0], KEY, caller=True), Link(ends[1], KEY, caller=False)
    caller.flush()
    other.flush()
    return caller, other


def exchanged(link: Link, other: Link, *messages: Message) -> list[Message]:
    """Send messages before either end has received any; return those that arrive at ``other``."""
    for message in messages:
        link.send(message)
    link.receive()
    got: list[Message] = []
    while len(got) < len(messages):
        got += other.receive()
    return got


def test_messages_arrive_in_order_at_both_ends(ends: tuple[socket.socket, socket.socket]) -> None:
    caller, other = linked(ends)
    sent: list[Message] = [{"kind": "ready", "attempt": 1}, {"kind": "alive"}]

    assert exchanged(caller, other, *sent) == sent
    assert exchanged(other, caller, *sent) == sent


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda lines: [lines[0], lines[0]], id="sent twice"),
        pytest.param(lambda lines: [lines[1]], id="left out"),
        pytest.param(lambda lines: [lines[1], lines[0]], id="in another order"),
        pytest.param(lambda lines: [lines[0].replace(b"alive", b"stop!")], id="changed"),
        pytest.param(lambda lines: [lines[0].partition(b" ")[2]], id="without its proof"),
        pytest.param(lambda lines: [b"\xff\xfe"], id="no text at all"),
    ],
)
def test_what_somebody_between_them_did_is_found_out(spoil: object) -> None:
    ours, between_ours = socket.socketpair()
    between_theirs, theirs = socket.socketpair()
    caller, other = linked((ours, theirs))
    between_theirs_hello, between_ours_hello = between_theirs.recv(4096), between_ours.recv(4096)
    between_ours.sendall(between_theirs_hello)
    between_theirs.sendall(between_ours_hello)
    caller.receive()
    other.receive()
    for number in range(2):
        caller.send({"kind": "alive", "number": number})
    lines = between_ours.recv(65_536).splitlines()

    between_theirs.sendall(b"".join(line + b"\n" for line in spoil(lines)))  # type: ignore[operator]

    with pytest.raises(WrongKey):
        other.receive()
    for end in (ours, between_ours, between_theirs, theirs):
        end.close()


def test_the_other_ends_end_is_told(ends: tuple[socket.socket, socket.socket]) -> None:
    caller, other = linked(ends)
    other.receive()
    other.close()

    caller.receive()  # its nonce
    with pytest.raises(LinkClosed):
        caller.receive()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Open files until the next descriptor is above what select() takes."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 2048), before[1]))
    files = [os.open(os.devnull, os.O_RDONLY)]
    while files[-1] < 1024:
        files.append(os.dup(files[0]))
    yield
    for file in files:
        os.close(file)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
def test_a_process_with_many_open_files_waits_for_a_line() -> None:
    near, far = socket.socketpair()
    with near, far:
        assert near.fileno() > 1023
        assert not wait_for(near, 0.0)
        assert wait_for(near, 0.0, to_write=True)

        far.send(b"a word")

        assert wait_for(near, 1.0)
