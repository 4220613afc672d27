"""``nbdist`` on a real terminal: a block at the foot of a live run, and every line above it."""

from __future__ import annotations

import re
import signal
import sys
from unittest.mock import Mock

import pexpect
import pytest

from nbdist.cli import running
from nbdist.feed.ansi import strip_ansi
from tests.cli.conftest import Shell
from tests.fakes.screen import Screen

TRAIN = """
import os, sys, time
print("the same")
for step in range(30):
    print("step", step, "of rank", os.environ["RANK"])
    print("\\x1b[2;1H" + "█" * step, end="\\r", file=sys.stderr)
    time.sleep(0.05)
"""


HOSTILE = """
import sys
print("\\x1b[32mgreen\\x1b[0m \\x1b]52;c;aGk=\\x07 \\x1b]0;mine\\x1b\\\\ \\x1bP$q\\x1b\\\\ \\x9b2J \\x1b[5n")
print("\\x1b]52;c;aGk=")
raise ValueError("bad \\x1b]52;c;aGk=\\x07 \\x9d0;mine\\x9c \\x1b[2J")
"""
_ACTS = re.compile(r"\x1b[\]PX^_c]|\x1b\[[\d;?]*[nhl]|\x1b\[2J|[\x80-\x9f\x07]")


def on_terminal(
    shell: Shell, *words: str, columns: int = 80, term: str = "xterm-256color", **variables: str
) -> pexpect.spawn:
    environment = shell.environment | {"TERM": term, "NO_COLOR": "1", "LANG": "C.UTF-8"} | variables
    return pexpect.spawn(
        sys.executable,
        ["-m", "nbdist", *words],
        cwd=str(shell.folder),
        env=environment,
        encoding="utf-8",
        timeout=30,
        dimensions=(24, columns),
    )


def whole(child: pexpect.spawn) -> str:
    """Read the rest of the output."""
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before)


def test_a_run_leaves_every_line_of_its_ranks_and_no_block(shell: Shell) -> None:
    shell.script("train.py", TRAIN)

    output = whole(child := on_terminal(shell, "run", "-n", "2", "train.py"))

    screen = Screen(80)
    screen.write(output)
    assert child.exitstatus == 0
    for rank in (0, 1):
        mine = [line for line in screen.lines if line.startswith(f"[{rank}] step")]
        assert mine == [f"[{rank}] step {step} of rank {rank}" for step in range(30)]
    assert "● Running  train-" in strip_ansi(output)
    assert "───" not in screen.text
    assert "Finished · 2 ranks" in screen.lines[-2]


def test_ctrl_c_stops_the_run_and_leaves_no_block(shell: Shell) -> None:
    shell.script("train.py", "import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    child = on_terminal(shell, "run", "-n", "1", "train.py")
    child.expect(r"\[0\] ready")

    child.sendintr()

    output = whole(child)
    assert child.exitstatus == 128 + signal.SIGINT
    assert "Stopped · 1 rank" in output.rpartition("\x1b[J")[2]


def test_a_held_rank_has_its_prompt_where_its_run_is_shown(shell: Shell) -> None:
    shell.script("train.py", "x = 7\nfor step in range(2):\n    breakpoint()\n    print('after', step)\n")
    child = on_terminal(shell, "run", "-n", "1", "train.py")
    for line, answer in (("p x + 1", "8\r\n"), ("c", r"\[0\] after 0")):
        child.expect(r"\(rank 0\) ")
        child.sendline(line)
        child.expect(answer)
    child.expect(r"\(rank 0\) ")

    child.sendintr()  # leaves the prompt
    child.expect("Held at train.py line 3")
    child.sendintr()

    whole(child)
    assert child.exitstatus == 128 + signal.SIGINT


def test_only_a_user_leaves_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = [None, True, None, KeyboardInterrupt, AssertionError("asked again")]
    prompt = Mock(step=Mock(side_effect=answers))
    monkeypatch.setattr(running, "DebugPrompt", lambda _: prompt)
    monkeypatch.setattr(running.sys, "stdin", Mock(isatty=lambda: True))
    monkeypatch.setattr(running.sys, "stdout", Mock(isatty=lambda: True))
    held = running._HeldRanks(Mock(), lambda: None)
    held.attend(Mock(held={0: "where"}))

    for _ in range(6):
        held.wait(0.0)

    assert prompt.step.call_count == 4


@pytest.mark.parametrize("plain", [{"TERM": "dumb"}, {"NBDIST_PANEL": "text"}], ids=["dumb", "asked for"])
def test_where_plain_text_is_wanted_there_is_nothing_else(shell: Shell, plain: dict[str, str]) -> None:
    shell.script("train.py", "print('a')\n")

    output = whole(on_terminal(shell, "run", "-n", "1", "train.py", **plain))

    assert "[0] a\r\n" in output
    assert "\x1b" not in output


def test_a_status_that_is_watched_ends_with_its_runs(shell: Shell) -> None:
    shell.script("train.py", "import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    shell.run("run", "-d", "-n", "2", "train.py")
    handle = shell.until_printed("ready")
    child = on_terminal(shell, "status", handle.run.label, "--watch")
    child.expect("0 +Running")

    handle.stop()

    screen = Screen(80)
    screen.write(str(child.before) + str(child.after) + whole(child))
    assert child.exitstatus == 0
    assert [line.split()[1] for line in screen.lines[1:2]] == ["Stopped"]
    assert [line.split()[:3] for line in screen.lines[2:4]] == [
        ["0", "Stopped,", "SIGINT"],
        ["1", "Stopped,", "SIGINT"],
    ]
    assert [line.split()[:1] for line in screen.lines[4:]] == [["machine"], []]


def test_leaving_a_watched_status_leaves_the_runs(shell: Shell) -> None:
    shell.script("train.py", "import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    shell.run("run", "-d", "-n", "1", "train.py")
    handle = shell.until_printed("ready")
    child = on_terminal(shell, "status", "--watch", columns=40)
    child.expect("0 +Running")

    child.sendintr()

    assert "Running" in whole(child)
    assert child.exitstatus == 128 + signal.SIGINT
    assert handle.status == "running"
    handle.stop()


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_no_rank_reaches_the_terminal_but_with_its_colours(shell: Shell, term: str) -> None:
    shell.script("train.py", HOSTILE)

    run = whole(on_terminal(shell, "run", "-n", "1", "train.py", term=term))
    others = {
        command: whole(on_terminal(shell, command, term=term)) for command in ("logs", "attach", "status")
    }

    assert "\x1b[32mgreen\x1b[0m" in run
    assert "\x1b[32mgreen\x1b[0m" in others["logs"]
    assert "ValueError: bad" in run
    for command, output in {"run": run, **others}.items():
        assert _ACTS.findall(output) == [], command
