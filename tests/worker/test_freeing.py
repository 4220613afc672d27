"""Interrupts of a rank's program: the moment, and the exception."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from types import ModuleType

import pytest

from nbdist.worker import main_thread, session_rank
from nbdist.worker.bootstrap import take_out

# what a rank's listener asks for, and what happens when the main thread executes Python then
RANK = """
import _thread, os, signal
os.dup2(os.open(os.devnull, os.O_RDWR), 3)
from nbdist.worker import main_thread, session_rank
from nbdist.worker.freeing import Freeing
freeing = Freeing(_thread.get_ident(), lambda: True)
def beat():
    main_thread.beat(main_thread.BEAT, None)
def owe():
    freeing.before, freeing.owes = main_thread.handled(_thread.get_ident()), True
{program}
"""

PROGRAMS = [
    pytest.param("owe()\nbeat()", "KeyboardInterrupt", id="at once"),
    pytest.param("owe()\ntry: beat()\nexcept KeyboardInterrupt: pass\nbeat()", "", id="once"),
    pytest.param("beat()", "", id="not unasked"),
    pytest.param(
        "owe()\ntry: raise ValueError\nfinally: beat()", "ValueError", id="not in a program that is leaving"
    ),
    pytest.param(
        "owe()\ntry: raise ValueError\nexcept ValueError: beat()\nbeat()",
        "KeyboardInterrupt",
        id="in one that goes on after all",
    ),
    pytest.param(
        "try: raise ValueError\nexcept ValueError:\n    owe()\n    beat()",
        "KeyboardInterrupt",
        id="in one that had handled an error before",
    ),
    pytest.param(
        "code = compile('try: raise OSError\\nfinally: beat()', '/lib/torch/distributed/c10d.py', 'exec')\n"
        "owe()\nexec(code)",
        "KeyboardInterrupt",
        id="in place of an error that the program has not seen",
    ),
    pytest.param(
        "code = compile('try: raise OSError\\nfinally: beat()', '/lib/torch/distributed/c10d.py', 'exec')\n"
        "owe()\ntry: raise ValueError\nfinally: exec(code)",
        "OSError",
        id="not in the place of one that comes while it is leaving",
    ),
    pytest.param(
        "signal.signal(signal.SIGINT, lambda *_: exit('caught'))\nowe()\nbeat()",
        "caught",
        id="as the program has it",
    ),
    pytest.param(
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nowe()\nbeat()\n"
        "exit(f'waits: {signal.SIGINT in signal.sigpending()}')",
        "waits: True",
        id="when the program lets it",
    ),
]


def run(program: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(("program", "end"), PROGRAMS)
def test_a_program_is_interrupted(program: str, end: str) -> None:
    done = run(RANK.format(program=program))

    assert (done.stderr.splitlines() or [""])[-1] == end, done.stderr


# the listener's look at a main thread that is said to be awake for the first so many times
LOOKS = """
import _thread, hashlib, os, time
os.dup2(os.open(os.devnull, os.O_RDWR), 3)
from nbdist.worker.freeing import Freeing
looks = iter([False] * {awake} + [True] * 100)
freeing, waits = Freeing(_thread.get_ident(), lambda: next(looks)), []
_thread.start_new_thread(lambda: waits.append(freeing._waits()), ())
{program}
while not waits: time.sleep(0.01)
exit(f"waits: {{waits[0]}}")
"""


@pytest.mark.parametrize(
    ("program", "awake", "waits"),
    [
        pytest.param("time.sleep(1)", 3, True, id="stands behind others for a processor"),
        # the interpreter is free meanwhile
        pytest.param("hashlib.pbkdf2_hmac('sha256', b'', b'', 3_000_000)", 99, False, id="computes"),
    ],
)
def test_a_main_thread_waits_that_sleeps_when_it_has_had_its_turn(
    program: str, awake: int, waits: bool
) -> None:
    done = run(LOOKS.format(program=program, awake=awake))

    assert done.stderr.strip() == f"waits: {waits}", done.stderr


def test_what_the_handler_raises_is_raised_by_the_line_that_it_interrupted(monkeypatch) -> None:
    def interrupts() -> None:
        raise KeyboardInterrupt

    def program() -> None:
        main_thread.beat(10, None)

    monkeypatch.setattr(main_thread, "on_beat", interrupts)
    with pytest.raises(KeyboardInterrupt) as caught:
        program()

    take_out(caught.value)

    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "program"


def test_a_session_may_ask_while_a_thread_imports_what_frees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # as Python has it in sys.modules until it is executed
    monkeypatch.setitem(sys.modules, "nbdist.worker.freeing", ModuleType("nbdist.worker.freeing"))

    assert session_rank._aborted() == ""
