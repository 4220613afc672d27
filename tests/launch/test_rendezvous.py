"""The port where the ranks of an attempt meet."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.errors import LaunchError
from nbdist.launch.rendezvous import choose_rendezvous

LOOPBACK = "127.0.0.1"


class Draws(random.Random):
    """Draws these numbers in this order, the last one for ever; keeps the range it was asked for."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self._numbers = list(numbers)
        self.drawn = 0
        self.ranges: set[tuple[int, int]] = set()

    def randint(self, a: int, b: int) -> int:
        self.ranges.add((a, b))
        self.drawn += 1
        return self._numbers.pop(0) if len(self._numbers) > 1 else self._numbers[0]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_port_can_be_bound_by_the_ranks() -> None:
    chosen = choose_rendezvous()

    assert chosen.host == LOOPBACK
    with socket.create_server((chosen.host, chosen.port)) as server:
        assert server.getsockname() == (LOOPBACK, chosen.port)


def test_a_port_that_somebody_listens_on_is_passed_over(taken: int, free: int) -> None:
    draws = Draws(taken, taken, free)

    chosen = choose_rendezvous(random_source=draws)

    assert chosen.port == free
    assert draws.drawn == 3


def test_a_machine_without_a_free_port_says_so(taken: int) -> None:
    with pytest.raises(LaunchError, match=r"^no free port between 15000 and \d+ on 127\.0\.0\.1$"):
        choose_rendezvous(random_source=Draws(taken))


def test_ports_of_outgoing_connections_are_left_alone(free: int) -> None:
    draws = Draws(free)
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    choose_rendezvous(random_source=draws)

    assert draws.ranges == {(15_000, (ephemeral if ephemeral > 16_000 else 32_768) - 1)}


def test_two_runs_meet_at_two_ports() -> None:
    first = choose_rendezvous(random_source=random.Random(1))
    second = choose_rendezvous(random_source=random.Random(2))

    assert first.port != second.port
