"""Every byte that a rank wrote before it died is in its log, in order, whoever in the rank wrote it."""

from __future__ import annotations

import mmap
import os
import signal
from pathlib import Path

import pytest

from nbdist import runner
from tests.faults.conftest import ROUNDS
from tests.programs import ranks_of, until, until_ready

pytestmark = pytest.mark.usefixtures("leaves_nothing")

MANY = 1_000_000 if ROUNDS > 1 else 100_000


def log_of(handle: runner.RunHandle, rank: int = 0) -> bytes:
    return handle.directory.rank(rank).log.read_bytes()


def test_many_lines_of_eight_ranks(run_cell) -> None:
    cell = f"import os\nfor i in range({MANY}): print('line', i, 'of rank', os.environ['RANK'])"

    handle = run_cell("-n 8", cell, limit=170)

    assert handle.status == "finished"
    for rank in range(8):
        expected = b"".join(b"line %d of rank %d\n" % (i, rank) for i in range(MANY))
        # not compared by pytest, which would explain the difference for minutes
        assert (log_of(handle, rank) == expected) is True, f"the log of rank {rank} differs"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        pytest.param("print('x' * 10_000_000, end='')", b"x" * 10_000_000, id="10 MB without a newline"),
        pytest.param(
            "sys.stdout.buffer.write(bytes(range(256)) * 4096)", bytes(range(256)) * 4096, id="binary bytes"
        ),
        pytest.param(
            "os.write(1, 'é'.encode()[:1]); os.write(1, 'é'.encode()[1:]); os.write(1, '漢'.encode()[:2])",
            "é".encode() + "漢".encode()[:2],
            id="half characters",
        ),
        pytest.param(
            "[print(f'\\r{i} %', end='') for i in range(101)]",
            b"".join(b"\r%d %%" % i for i in range(101)),
            id="a progress bar",
        ),
        pytest.param("print(); print('\\0', end='\\r\\n')", b"\n\0\r\n", id="empty lines and zeros"),
        pytest.param(
            "print('漢字 ✓'); print('ö', file=sys.stderr)", "漢字 ✓\nö\n".encode(), id="UTF-8 in any locale"
        ),
    ],
)
def test_bytes_of_any_kind(run_cell, program: str, expected: bytes) -> None:
    handle = run_cell("-n 1", f"import os, sys\n{program}")

    assert handle.status == "finished", handle.logs()[-2000:]
    assert (log_of(handle) == expected) is True, log_of(handle)[:200]


def test_what_python_c_and_children_write_is_in_order(run_cell) -> None:
    cell = """
import ctypes, logging, os, subprocess, sys, threading, warnings
libc = ctypes.CDLL(None)
print("1 print")
sys.stderr.write("2 stderr\\n")
libc.dprintf(1, b"3 C\\n")
subprocess.run(["echo", "4 child"])
logging.warning("5 logging")
os.system("echo 6 shell >&2")
thread = threading.Thread(target=print, args=("7 thread",)); thread.start(); thread.join()
if os.fork() == 0:
    print("8 fork"); os._exit(0)
os.wait()
libc.puts(b"9 stdio"); libc.fflush(None)
sys.stdout.buffer.write(b"10 bytes\\n")
print("11 end", end="")
"""

    handle = run_cell("-n 2", cell)

    words = ["print", "stderr", "C", "child", "WARNING:root:5 logging", "shell", "thread", "fork", "stdio"]
    expected = [f"{i} {word}" for i, word in enumerate(words, start=1)]
    expected[4] = words[4]
    for rank in (0, 1):
        assert handle.logs(rank) == "\n".join([*expected, "10 bytes", "11 end"])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("print('last words', end='')", id="print"),
        pytest.param("sys.stdout.write('last words')", id="sys.stdout"),
        pytest.param("sys.stderr.write('last words')", id="sys.stderr"),
        pytest.param("sys.stdout.buffer.write(b'last words')", id="bytes"),
        pytest.param("ctypes.CDLL(None).write(1, b'last words', 10)", id="C"),
        pytest.param("subprocess.run(['printf', 'last words'])", id="a child"),
    ],
)
def test_what_is_written_right_before_sigkill(run_cell, words: str) -> None:
    cell = f"import ctypes, os, signal, subprocess, sys\n{words}\nos.kill(os.getpid(), signal.SIGKILL)"

    handle = run_cell("-n 1", cell)

    assert (handle.run.ranks[0].code, log_of(handle)) == (-signal.SIGKILL, b"last words")


def test_a_rank_that_is_killed_while_it_writes_has_lost_nothing(start_cell, tmp_path: Path) -> None:
    cell = """
import mmap
with open("written", "r+b") as file:
    counter = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
number = 0
while True:
    print(number)
    number += 1
    counter[0] = number
"""
    path = tmp_path / "written"
    path.write_bytes(bytes(8))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        handle = start_cell("-n 1", cell)
        until(lambda: int.from_bytes(shared[:8], "little") > 1000)

        os.kill(ranks_of(handle)[0].pid, signal.SIGKILL)

        assert handle.wait(10) == "failed"
        written = int.from_bytes(shared[:8], "little")
    *lines, rest = log_of(handle).split(b"\n")
    assert lines == [b"%d" % number for number in range(len(lines))]
    # it may have been killed between a line and the count of it
    assert len(lines) in (written, written + 1)
    assert b"%d" % len(lines) == rest or rest == b""


def test_children_that_write_at_once_tear_no_line(run_cell) -> None:
    cell = """
import multiprocessing, os
def write(number):
    for i in range(500):
        print("child", number, "line", i, "x" * 200)
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(write, range(4))
"""

    handle = run_cell("-n 2", cell)

    for rank in (0, 1):
        lines = log_of(handle, rank).splitlines()
        assert len(lines) == 4 * 500
        for number in range(4):
            mine = [line for line in lines if line.startswith(b"child %d " % number)]
            assert mine == [b"child %d line %d " % (number, i) + b"x" * 200 for i in range(500)]


def test_a_child_that_outlives_its_rank_may_write_until_it_is_ended(run_cell) -> None:
    cell = """
import os, time
if os.fork() == 0:
    import signal
    def last(number, frame):
        os.write(1, b"told to end\\n")
        os._exit(0)
    signal.signal(signal.SIGTERM, last)
    os.write(1, b"child\\n")
    time.sleep(600)
while b"child" not in open(os.environ["NBDIST_RANK_DIR"] + "/log", "rb").read(): time.sleep(0.01)
print("rank")
"""

    handle = run_cell("-n 1", cell)

    assert (handle.status, log_of(handle)) == ("finished", b"child\nrank\ntold to end\n")


def test_a_rank_that_empties_its_log_does_not_stop_anybody(start_cell) -> None:
    handle = until_ready(start_cell("-n 1", "import time\nprint('ready')\ntime.sleep(600)"))

    os.truncate(handle.directory.rank(0).log, 0)

    assert handle.logs(0) == ""
    assert handle.stop() == "stopped"
