"""A run as one text: its parts, and those that stay where there are too many."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.feed.report_text import ROOM, report_text
from nbdist.model import RunState
from nbdist.store.reports import RankAnswer, TakenStacks, write_stacks
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, run_ended, stalled

CELL = "import os\n\n\ndef train(rate):\n    for step in range(9):\n        rate / (step - 4)\n\n\ntrain(1)\n"
TOKEN = "hf_" + "a1" * 16
WAITS = '"/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce'


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    spec = a_spec(args=("--api-key", "hunter2hunter2"), versions={"Python": "3.11.4", "torch": "2.13.0"})
    return WrittenRun(tmp_path / "home", spec, cell=CELL).happened(*STARTED)


def failed(
    written: WrittenRun, message: str = "division by zero", *, file: str = "", line: int = 6
) -> WrittenRun:
    at = file or written.spec.program
    frames = [(written.spec.program, 9, "<module>", "train(1)"), (at, line, "train", "rate / (step - 4)")]
    for rank, rate in ((1, "1"), (0, "2")):
        names = [(at, line, "rate", rate)]
        time = CREATED + 8 - rank
        written.raised(
            rank,
            "ZeroDivisionError",
            message,
            frames=frames,
            operands=names,
            time=time,
            text="Traceback (most recent call last):\n  …",
        )
        written.happened(errored(rank, time=time))
    written.printed(1, "epoch 1\nTraceback (most recent call last):\n  File …\nZeroDivisionError: …\n")
    written.happened(exited(0, 1), exited(1, 1), run_ended(RunState.FAILED, "rank 1 failed"))
    return written


def stacks(written: WrittenRun, **places: int) -> None:
    """Take the stacks of a run: ``waits`` and ``sleeps`` are the lines of ranks 0 and 1."""
    own = f'  File "{written.spec.program}", line {{}} in train\n'
    head = "Thread 0x07 (most recent call first):\n"
    texts = [f"{head}  File {WAITS}\n{own.format(places['waits'])}", head + own.format(places["sleeps"])]
    answers = tuple(RankAnswer(rank=rank, text=text) for rank, text in enumerate(texts))
    write_stacks(written.directory, TakenStacks(time=CREATED + 70, attempt=1, ranks=answers))


def text_of(written: WrittenRun, language: str = "en") -> str:
    text = report_text(written.run, written.directory, language, now=CREATED + 100.2)
    assert len(text.encode()) <= ROOM
    return text


def sections(text: str) -> dict[str, str]:
    """Return the parts by their titles; those without one by their first line."""
    parts = text.rstrip("\n").split("\n\n==")
    return {part.partition("==\n")[0].strip(): part.partition("==\n")[2] for part in parts}


def test_it_has_the_state_the_facts_the_exception_the_program_the_log_and_versions(
    written: WrittenRun,
) -> None:
    text = text_of(failed(written))

    assert text.splitlines()[:6] == [
        "nbdist report of lenet-k3f9",
        "Failed · 2 ranks (CPU) · torch · 0:11",
        "rank 1 failed",
        "",
        "rank 1 failed first: ZeroDivisionError at line 6 of the cell",
        "rate differs: 1 on rank 1, 2 on rank 0",
    ]
    parts = sections(text)
    assert parts["Exception"].splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert [line for line in parts["Program"].splitlines() if line.startswith("▸")] == [
        "▸   6          rate / (step - 4)"
    ]
    assert "    9  train(1)" in parts["Program"]
    # the traceback stands above
    assert parts["Last lines of rank 1"] == "epoch 1"
    assert "Python 3.11.4 · torch 2.13.0" in parts["Versions"]


def test_it_speaks_chinese(written: WrittenRun) -> None:
    parts = sections(text_of(failed(written), "zh"))

    assert list(parts)[1:] == ["异常", "程序", "进程 1 的最后几行", "版本"]


def test_a_stalled_run_says_who_waits_for_whom_before_its_program(written: WrittenRun) -> None:
    stacks(written, waits=9, sleeps=6)
    written.happened(stalled()).printed(1, "waiting for a lock\n").printed(0, "done\n")

    text = text_of(written)

    assert text.splitlines()[:3] == [
        "nbdist report of lenet-k3f9",
        "Stalled · 2 ranks (CPU) · torch · 1:40",
        "No progress for 90 s",
    ]
    parts = sections(text)
    assert list(parts)[1:] == ["Stacks", "Program", "Last lines of rank 1", "Versions"]
    assert "rank 0 waits in all_reduce at line 9" in parts["Stacks"]
    assert [line[3:] for line in parts["Program"].splitlines() if line.startswith("▸")] == [
        " 6          rate / (step - 4)",
        " 9  train(1)",
    ]
    assert parts["Last lines of rank 1"] == "waiting for a lock"


def test_where_the_others_were_when_one_failed_stands_in_it(written: WrittenRun) -> None:
    stacks(written, waits=9, sleeps=6)

    assert "rank 0 waits in all_reduce at line 9" in sections(text_of(failed(written)))["Stacks"]


def test_a_failure_in_a_module_has_the_lines_of_the_module_and_of_the_program(
    written: WrittenRun, tmp_path: Path
) -> None:
    module = tmp_path / "pkg" / "models.py"
    module.parent.mkdir()
    module.write_text("def f():\n    pass\n\n\ndef train(rate):\n    rate / (step - 4)\n")

    parts = sections(text_of(failed(written, file=str(module))))

    assert "▸   6      rate / (step - 4)" in parts["pkg/models.py"]
    assert "▸   9  train(1)" in parts["Program"]


def test_what_is_secret_is_masked(written: WrittenRun) -> None:
    written.printed(1, f"password hunter2hunter2, token {TOKEN}\n")

    text = text_of(failed(written, f"denied for {TOKEN}"))

    assert TOKEN not in text
    assert "hunter2hunter2" not in text
    assert "ZeroDivisionError: denied for" in text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_of_a_long_report_nothing_important_is_cut(written: WrittenRun, language: str) -> None:
    long = "\n".join([*(f"x{number} = '{'长' * 90}'" for number in range(400)), CELL])
    Path(written.directory.program(written.spec.program)).write_text(long)
    written.printed(1, "".join(f"step {number} 损失 {'·' * 300}\n" for number in range(900)))
    stacks(written, waits=9, sleeps=6)

    text = text_of(failed(written, "错" * 9000 + "\n" + "line\n" * 2000, line=406), language)

    assert ("rate differs: 1 on rank 1, 2 on rank 0" in text) == (language == "en")
    assert "▸ 406          rate / (step - 4)" in text
    assert "ZeroDivisionError: 错错" in text
    assert "step 899 损失" in text
    assert "all_reduce" in text
    assert "torch 2.13.0" in text
    assert len(text.encode()) > ROOM - 1000


def test_a_short_program_stays_whole_where_the_log_is_long(written: WrittenRun) -> None:
    written.printed(1, "".join(f"step {number} {'·' * 300}\n" for number in range(900)))

    assert "…" not in sections(text_of(failed(written)))["Program"]
