"""Use of a process and its descendants."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nbdist import processes
from nbdist.devices.usage import tree_usage
from nbdist.model import ProcessId

# three generations: each but the last starts the next, the last says so; all wait for a line that
# never comes
GENERATION = """
import subprocess, sys
program, left = sys.argv[1], int(sys.argv[2])
ballast = bytearray(20_000_000)
if left:
    child = subprocess.Popen([sys.executable, "-S", "-c", program, program, str(left - 1)])
else:
    print("here", flush=True)
input()
"""


@pytest.fixture
def family() -> Iterator[ProcessId]:
    """A process with a child and a grandchild."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", GENERATION, GENERATION, "2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout.readline() == "here\n"
        known = processes.identify(parent.pid)
        assert known is not None
        descendants = processes.descendants(parent.pid)
        yield known
        parent.kill()
        processes.send_all(descendants, 9)


def test_a_tree_is_counted_whole(family: ProcessId) -> None:
    usage = tree_usage(family)

    assert len(usage.pids) == 3
    assert usage.memory > 60_000_000
    # another process with the same pid is not taken for it
    assert tree_usage(replace(family, start_time=family.start_time + 1)) is None


def test_a_process_that_has_gone_uses_nothing() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = processes.identify(child.pid)
        assert known is not None
        before = tree_usage(known)
        child.kill()

    assert before is not None
    assert tree_usage(known) is None
