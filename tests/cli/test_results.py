"""``nbdist status``, ``logs``, ``stop``, ``stacks`` and ``attach``, on runs of another process."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from nbdist import processes
from nbdist.cli.commands import main
from nbdist.model import RunState
from nbdist.runner import RunHandle
from nbdist.store import RunDirectory
from nbdist.text import reason_text
from tests.cli.conftest import Shell, read_until
from tests.conftest import RunCell
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import STARTED, exited, run_ended
from tests.programs import until, until_ready

WAIT = "import os, time\nprint('ready')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('done')\n"
SLEEP = "import time\nprint('ready')\ntime.sleep(600)"
SLEEPS = "ranks 0, 1 are in time.sleep at line 3"
COUNT = "import os\nfor i in range(5): print('line', i)\n"


def started(shell: Shell, program: str = WAIT, *, name: str = "lenet", ranks: int = 1) -> RunHandle:
    """Start a detached run of ``program``."""
    shell.script(f"{name}.py", program)
    done = shell.run("run", "-d", "-n", str(ranks), f"{name}.py")
    assert done.returncode == 0, done.stderr
    assert "runs in the background: see it with  nbdist status" in done.stderr
    return RunHandle(RunDirectory(shell.home / "runs" / done.stdout.strip()))


def test_status_is_a_table_of_the_runs_and_their_ranks(shell: Shell) -> None:
    handle = started(shell)
    shell.until_printed("ready")

    done = shell.run("status")

    head, run, rank, _machine = done.stdout.splitlines()
    assert done.returncode == 0
    assert head.split()[:4] == ["run", "rank", "state", "device"]
    assert run.split()[:2] == [handle.run.label, "Running"]
    assert rank.split()[:3] == ["0", "Running", "CPU"]
    assert rank.endswith("ready")
    handle.stop()


def test_where_there_are_no_runs_status_says_how_to_start_one_and_json_is_empty(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nbdist run -n 2 train.py" in printed_by(capsys, "status")
    assert json.loads(printed_by(capsys, "status", "--json")) == []


def test_logs_name_the_rank_and_can_be_cut_to_their_end_and_to_what_matches(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    WrittenRun(home).happened(*STARTED).printed(0, "line 1\nline 2\n").printed(1, "line 3\nline 4\n")

    assert printed_by(capsys, "logs") == "[0] line 1\n[0] line 2\n[1] line 3\n[1] line 4\n"
    assert printed_by(capsys, "logs", "lenet", "--rank", "1") == "line 3\nline 4\n"
    assert printed_by(capsys, "logs", "--tail", "1", "--rank", "0") == "line 2\n"
    assert printed_by(capsys, "logs", "--grep", "e [134]", "--tail", "1") == "[0] line 1\n[1] line 4\n"


def printed_by(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_logs_are_followed_from_their_tail_until_the_run_ends(shell: Shell) -> None:
    handle = started(shell, COUNT + WAIT)
    shell.until_printed("ready")
    every, tail = shell.start("logs", "-f"), shell.start("logs", "--follow", "--tail", "2", "--rank", "0")

    assert read_until(every, "ready") == "".join(f"[0] line {n}\n" for n in range(5)) + "[0] ready\n"
    assert read_until(tail, "ready") == "line 4\nready\n"
    assert every.poll() is None
    (shell.folder / "go").touch()

    done = [shell.finish(following) for following in (every, tail)]
    assert [(each.returncode, each.stdout) for each in done] == [(0, "[0] done\n"), (0, "done\n")]
    assert handle.wait(15) == "finished"


def test_an_interrupt_ends_the_following_and_not_the_run(shell: Shell) -> None:
    handle = started(shell)
    following = shell.start("logs", "-f")
    read_until(following, "ready")

    following.send_signal(signal.SIGINT)
    done = shell.finish(following)

    assert (done.returncode, done.stderr) == (130, "")
    assert handle.status == "running"
    handle.stop()


def test_a_reader_that_has_gone_ends_the_logs_in_silence(shell: Shell) -> None:
    WrittenRun(shell.home).happened(*STARTED).printed(0, "line\n" * 200_000)
    reading = shell.start("logs")
    read_until(reading, "line")

    reading.stdout.close()

    assert reading.wait(20) == 128 + signal.SIGPIPE
    assert reading.stderr.read() == ""


def test_stop_ends_the_run_and_says_what_it_ended(shell: Shell) -> None:
    handle = started(shell, ranks=2)
    shell.until_printed("ready")

    done = shell.run("stop")

    assert done.returncode == 0
    assert done.stdout == f"[nbdist] {handle.run.label} stopped: 2 processes ended\n"
    assert reason_text(handle.run.reason) == "stopped by nbdist stop"


def test_stop_all_ends_every_run_that_goes_on(shell: Shell) -> None:
    handles = [started(shell), started(shell, name="other")]

    done = shell.run("stop", "--all")

    assert done.returncode == 0
    assert done.stdout.count(" stopped: ") == 2
    assert [handle.status for handle in handles] == ["stopped"] * 2


def test_where_nothing_goes_on_stop_all_is_content(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop", "--all"]) == 0

    assert capsys.readouterr() == ("", "[nbdist] no run to stop\n")


def test_attach_shows_a_run_to_its_end_with_its_exit_code(shell: Shell) -> None:
    started(shell, WAIT + "raise SystemExit(5)\n")
    watching = shell.start("attach")

    seen = read_until(watching, "ready")
    (shell.folder / "go").touch()
    done = shell.finish(watching)

    assert seen.splitlines()[-1] == "[0] ready"
    assert "[0] done\n" in done.stdout
    assert "Failed · 1 rank" in done.stdout
    assert "rank 0 failed first" in done.stderr
    assert done.returncode == 5


def test_an_interrupt_of_attach_leaves_the_run_and_says_so(shell: Shell) -> None:
    handle = started(shell)
    watching = shell.start("attach", "lenet")
    read_until(watching, "ready")

    watching.send_signal(signal.SIGINT)
    done = shell.finish(watching)

    label = handle.run.label
    assert done.returncode == 130
    assert done.stderr == f"[nbdist] {label} still runs: see it again with  nbdist attach {label}\n"
    assert handle.status == "running"
    handle.stop()


def test_a_run_whose_directory_goes_while_it_is_followed_is_1(shell: Shell) -> None:
    handle = started(shell)
    watching = shell.start("attach")
    read_until(watching, "ready")
    ranks = [rank.process for rank in handle.run.ranks]

    handle.directory.path.rename(shell.folder / "elsewhere")
    done = shell.finish(watching)

    assert done.returncode == 1
    assert "cannot be read" in done.stderr
    until(lambda: not any(processes.alive(rank) for rank in ranks))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["stop"], "no run to stop: see the latest with  nbdist status", id="of the verb"),
        pytest.param(["logs", "-f", "--rank", "7"], "has no rank 7", id="no such rank to follow"),
        pytest.param(["status", "--watch"], "write  nbdist status", id="a pipe to watch in"),
        pytest.param(["status", "--watch", "--json"], "not allowed with", id="two forms at once"),
    ],
)
def test_a_mistake_is_one_line_and_2(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    WrittenRun(home).happened(*STARTED, exited(0), exited(1), run_ended(RunState.FINISHED))

    code = main(words)

    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert (code, printed.out) == (2, "")
    assert line.startswith("nbdist: ")
    assert expected in line


def test_where_the_ranks_are_is_shown_while_they_run_and_afterwards(
    start_cell: RunCell, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = start_cell("-n 2", SLEEP)
    until_ready(handle)

    assert main(["stacks"]) == 0
    assert SLEEPS in capsys.readouterr().out

    assert main(["stacks", handle.run.label, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["sentence"], data["groups"][0]["ranks"]) == (SLEEPS, [0, 1])

    handle.stop("enough")
    assert main(["stacks", "--threads"]) == 0
    assert SLEEPS in capsys.readouterr().out


def test_a_run_that_was_never_asked_has_no_stacks(
    run_cell: RunCell, capsys: pytest.CaptureFixture[str]
) -> None:
    handle = run_cell("-n 1", "print('done')")

    assert main(["stacks"]) == 1
    assert f"no stacks have been taken of {handle.run.label}" in capsys.readouterr().out
