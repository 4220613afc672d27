"""The board server as a process: one per home, for its user only, and gone when it is not needed."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.board import ensure_board, find_board, stop_board
from nbdist.board.server import Board, BoardDirectory, read_board, write_board
from nbdist.errors import LaunchError
from tests.board.conftest import Home
from tests.programs import until


def status(board: Board, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def until_gone(board: Board) -> None:
    until(lambda: not processes.alive(board.process))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Return a home with a run and a server, for tests that only read."""
    home = Home(tmp_path_factory.mktemp("shared") / "home")
    home.log(home.run(), home.point(0, loss=1))
    (home.path / "board").mkdir(mode=0o755)
    ensure_board(home.path)
    yield home
    stop_board(home.path)


def test_the_page_of_a_run_is_at_its_address(shared_home: Home) -> None:
    run = shared_home.run()
    board = ensure_board(shared_home.path)

    url = board.url([run.run_id])

    assert url == f"http://127.0.0.1:{board.port}/{board.token}/{run.run_id}/scalar"
    assert status(board, url.partition(str(board.port))[2] + "?runs=rank0") == 200


def test_a_second_notebook_gets_the_same_server(shared_home: Home) -> None:
    board = ensure_board(shared_home.path)

    assert board.answers()
    assert board == ensure_board(shared_home.path) == find_board(shared_home.path)


def test_notebooks_that_ask_at_once_get_one_server_which_outlives_them(home: Home) -> None:
    program = (
        "import sys; from pathlib import Path; from nbdist.board import ensure_board;"
        "print(ensure_board(Path(sys.argv[1])).process.pid)"
    )
    notebooks = [
        subprocess.Popen([sys.executable, "-c", program, home.path], stdout=subprocess.PIPE) for _ in range(3)
    ]

    answers = {notebook.communicate(timeout=60)[0] for notebook in notebooks}

    board = find_board(home.path)
    assert answers == {f"{board.process.pid}\n".encode()}
    assert os.getsid(board.process.pid) == board.process.pid


def test_a_notebook_imports_no_visualdl(home: Home) -> None:
    program = (
        "import sys, nbdist.board;"
        "print([m for m in ('visualdl', 'torch', 'paddle', 'numpy', 'flask') if m in sys.modules])"
    )

    answer = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)

    assert answer.stdout == b"[]\n"


def test_nobody_gets_in_without_the_token(shared_home: Home) -> None:
    run, board = shared_home.run(), ensure_board(shared_home.path)
    right = board.token
    wrong = ("x" if right[0] != "x" else "y") + right[1:]

    for path in (
        "/",
        "/alive",
        f"/{run.run_id}/scalar",
        f"//{run.run_id}/scalar",
        f"/app/{run.run_id}/scalar",
        f"/{wrong}/{run.run_id}/scalar",
        f"/{wrong}/alive",
        f"/{right[:-1]}/alive",
        f"/{right}x/alive",
        "/%ff%00/alive",
        f"/?token={right}",
    ):
        assert status(board, path) == 404, path
    assert status(board, f"/{right}/alive") == 204


def test_the_server_listens_on_loopback_only(shared_home: Home) -> None:
    board = ensure_board(shared_home.path)
    tables = [Path(f"/proc/{board.process.pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [row.split() for table in tables for row in table.splitlines()[1:]]

    ours = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{board.port:04X}")]

    assert ours == [f"0100007F:{board.port:04X}"]


def test_only_its_user_can_read_the_token(shared_home: Home) -> None:
    run, board = shared_home.run(), ensure_board(shared_home.path)
    status(board, f"/{board.token}/{run.run_id}/api/nothing")
    directory = BoardDirectory(shared_home.path / "board")

    assert mode(directory.path) == 0o700
    assert mode(directory.discovery) == mode(directory.log) == mode(directory.lock) == 0o600
    assert board.token.encode() not in Path(f"/proc/{board.process.pid}/cmdline").read_bytes()
    assert board.token not in directory.log.read_text()


def test_a_server_that_is_used_goes_on_and_one_that_nobody_uses_ends(home: Home) -> None:
    board = ensure_board(home.path, idle_seconds=4)
    end = time.monotonic() + 6

    while time.monotonic() < end:
        assert board.answers()
        time.sleep(0.2)

    until_gone(board)
    assert find_board(home.path) is None
    assert not BoardDirectory(home.path / "board").discovery.exists()


def test_a_server_whose_home_has_gone_ends(home: Home) -> None:
    board = ensure_board(home.path)

    os.rename(home.path, home.path.with_name("elsewhere"))

    until_gone(board)


def test_a_server_that_was_killed_is_replaced(home: Home) -> None:
    killed = ensure_board(home.path)
    processes.send(killed.process, signal.SIGKILL)
    until_gone(killed)

    board = ensure_board(home.path)

    assert board.process != killed.process
    assert board.token != killed.token
    assert board.answers()


def test_stopping_ends_the_server_and_points_are_there_once_after_a_restart(home: Home) -> None:
    run = home.run()
    home.log(run, *(home.point(None, loss=step) for step in range(50)))

    def shown(board: Board) -> list[list[float]]:
        path = f"/{board.token}/{run.run_id}/api/scalar/list?run=rank0&tag=loss"
        connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
        connection.request("GET", path)
        points: list[list[float]] = json.loads(connection.getresponse().read())["data"]
        return points

    board = ensure_board(home.path)
    before = shown(board)
    assert stop_board(home.path)
    assert not processes.alive(board.process)
    assert not stop_board(home.path)
    after = shown(ensure_board(home.path))

    assert len(before) == 50
    assert after == before


def test_stopping_spares_a_process_that_got_the_pid_later(home: Home) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    identity = processes.identify(bystander.pid)
    (home.path / "board").mkdir()
    earlier = replace(identity, start_time=identity.start_time - 1)
    write_board(home.path, Board(process=earlier, port=1, token="t"))
    try:
        assert not stop_board(home.path)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_broken_discovery_file_is_replaced(home: Home) -> None:
    directory = BoardDirectory(home.path / "board")
    directory.path.mkdir(mode=0o700)
    for content in ("", "{", "[]", '{"pid": "x"}', '{"pid": 1}'):
        directory.discovery.write_text(content)
        assert read_board(home.path) is None, content

    board = ensure_board(home.path)

    assert board.answers()


def test_a_server_that_cannot_start_says_why(home: Home) -> None:
    directory = BoardDirectory(home.path / "board")
    directory.lock.mkdir(parents=True)

    with pytest.raises(LaunchError, match=r"has ended; .*server\.log(?s:.*)Is a directory"):
        ensure_board(home.path)


def test_a_server_that_takes_too_long_is_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBDIST_TEST_HOME", str(home.path))

    with pytest.raises(LaunchError, match=r"took over 0\.01 s"):
        ensure_board(home.path, deadline=0.01)

    until(lambda: not processes.marked("NBDIST_TEST_HOME", str(home.path)))
    assert find_board(home.path) is None


def test_a_module_beside_the_notebook_does_not_stop_the_server(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('not this random')")
    monkeypatch.chdir(tmp_path)

    assert ensure_board(home.path).answers()
