"""From faulthandler's words to a rank's place, in lines of the cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.diagnosis import diagnose
from nbdist.diagnosis.stack_text import behind_text, sentence, stacks_text
from nbdist.diagnosis.stacks import last_stacks, take_stacks
from nbdist.feed.stalling import ended_slow
from nbdist.model import RankErrored, Reason, RunState
from nbdist.programs.sources import call_on_line
from nbdist.store.reports import (
    Collective,
    Handled,
    Operand,
    RankAnswer,
    TakenStacks,
    is_whole,
    parse_dump,
    write_stacks,
)
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, errored, exited, rank_started, run_ended, stalled

CELL = """\
import time, torch.distributed as dist

def augment(batch):
    time.sleep(120)

for batch in range(4):
    augment(batch)
    dist.all_reduce(batch)
"""
SITE = "/usr/lib/python3/site-packages"
WORKER = "/opt/nbdist/worker"


def dump(*calls: str, program: str) -> str:
    """Return faulthandler's text: a thread for signals, one of the program, the main thread last."""
    lines = [
        "Current thread 0x00007f01 (most recent call first):",
        f'  File "{WORKER}/stack_answers.py", line 99 in run',
        "",
        "Thread 0x00007f02 (most recent call first):",
        '  File "/usr/lib/python3/threading.py", line 320 in wait',
        '  File "/usr/lib/python3/threading.py", line 1002 in _bootstrap',
        "",
        "Thread 0x00007f03 (most recent call first):",
        *(f"  File {call}" for call in calls),
        f'  File "{WORKER}/bootstrap.py", line 59 in main',
        f'  File "{WORKER}/__main__.py", line 15 in <module>',
    ]
    return "\n".join(lines).replace("CELL", program) + "\n"


ALL_REDUCE = (
    f'"{SITE}/torch/distributed/distributed_c10d.py", line 3252 in all_reduce',
    f'"{SITE}/torch/distributed/c10d_logger.py", line 83 in wrapper',
    '"CELL", line 8 in <module>',
)
SLEEP = ('"CELL", line 4 in augment', '"CELL", line 7 in <module>')


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    spec = a_spec(ranks=4)
    more = [rank_started(rank) for rank in (2, 3)]
    return WrittenRun(tmp_path / "home", spec, cell=CELL).happened(*STARTED, *more)


def taken(written: WrittenRun, *answers: RankAnswer) -> WrittenRun:
    write_stacks(written.directory, TakenStacks(time=CREATED + 70, attempt=1, ranks=answers))
    return written


def at(written: WrittenRun, rank: int, calls: tuple[str, ...], **more: object) -> RankAnswer:
    return RankAnswer(rank=rank, text=dump(*calls, program=written.spec.program), **more)  # type: ignore[arg-type]


def sentence_of(written: WrittenRun, language: str = "en") -> str:
    report = last_stacks(written.run, written.directory)
    assert report is not None
    return sentence(report, language)


def test_who_waits_for_whom_is_one_sentence(written: WrittenRun) -> None:
    taken(written, *(at(written, rank, SLEEP if rank == 1 else ALL_REDUCE) for rank in range(4)))

    assert (
        sentence_of(written)
        == "rank 1 is in time.sleep at line 4; ranks 0, 2, 3 wait in all_reduce at line 8"
    )
    assert (
        sentence_of(written, "zh") == "进程 1 在第 4 行的 time.sleep 中；进程 0, 2–3 在第 8 行等待 all_reduce"
    )


def test_an_interrupt_that_follows_the_stack_is_nothing_that_a_rank_handles(written: WrittenRun) -> None:
    program = written.spec.program
    came = Handled(text="KeyboardInterrupt", places=((program, 7), (program, 4)))
    earlier = Handled(text="KeyError: 'y'", places=((program, 6),))
    taken(written, at(written, 0, SLEEP, handling=came), at(written, 1, SLEEP, handling=earlier))

    assert sentence_of(written) == (
        "rank 0 is in time.sleep at line 4; "
        "rank 1 is in time.sleep at line 4, handling KeyError: 'y' from line 6"
    )


@pytest.mark.parametrize("has_ended", [False, True], ids=["of a thread", "of its program"])
def test_a_traceback_in_the_log_is_a_threads_where_the_program_goes_on(
    written: WrittenRun, has_ended: bool
) -> None:
    frame = '  File "/usr/lib/python3/threading.py", line 1002, in _bootstrap\n'
    frame += f'  File "{written.spec.program}", line 4, in augment\n    time.sleep(120)\n'
    written.printed(1, f"Traceback (most recent call last):\n{frame}KeyError: 'y'\n")
    written.happened(stalled(), *([RankErrored(time=CREATED + 65, rank=1)] if has_ended else []))
    taken(written, *(at(written, rank, SLEEP if rank == 1 else ALL_REDUCE) for rank in range(4)))
    report = last_stacks(written.run, written.directory)

    assert [raised.rank for raised in report.raised] == ([] if has_ended else [1])
    assert (report.hint is not None and report.hint.signature == "hang-thread") is not has_ended


@pytest.mark.parametrize(
    ("first", "after", "of_a_thread"),
    [
        pytest.param('"/usr/lib/python3/threading.py", line 2, in _bootstrap', "", True, id="of a thread"),
        pytest.param('"CELL", line 3, in load', "threading.Thread(target=load)", True, id="of what it began"),
        pytest.param('"CELL", line 3, in load', "load()", False, id="printed by the program"),
        pytest.param('"CELL", line 1, in <module>', "", False, id="of the program"),
    ],
)
def test_a_traceback_that_the_program_printed_itself_is_no_reason(
    tmp_path: Path, first: str, after: str, of_a_thread: bool
) -> None:
    written = WrittenRun(tmp_path / "home", cell=f"{CELL}\n{after}\n").happened(*STARTED, stalled())
    head = f"Traceback (most recent call last):\n  File {first.replace('CELL', written.spec.program)}\n"
    written.printed(1, f"{head}KeyError: 'y'\n")
    taken(written, at(written, 0, ALL_REDUCE), at(written, 1, SLEEP))

    report = last_stacks(written.run, written.directory)

    assert (report.hint.signature == "hang-thread") is of_a_thread
    assert ("the log of rank 1 has KeyError: 'y'" in behind_text(report)) is not of_a_thread


def test_what_the_line_works_with_that_holds_a_rank_is_said(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED, stalled())
    had = Operand(file=written.spec.program, line=4, name="delay", what="120")
    taken(written, at(written, 0, ALL_REDUCE), at(written, 1, SLEEP, values=(had,)))

    report = last_stacks(written.run, written.directory)

    assert report is not None
    assert behind_text(report).startswith("values at line 4 on rank 1: delay = 120\ncause: ")
    assert behind_text(report, "zh").startswith("进程 1 第 4 行的值：delay = 120\n")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(
            "KeyboardInterrupt", "values at line 4 on rank 1: delay = 120\ncause: ", id="interrupted"
        ),
        pytest.param("ValueError", "cause: ", id="another error"),
    ],
)
def test_a_rank_that_ran_on_has_told_its_values_when_it_was_interrupted(
    tmp_path: Path, kind: str, text: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED, stalled())
    taken(written, at(written, 0, ALL_REDUCE), at(written, 1, SLEEP))
    program = written.spec.program
    values = [(program, 4, "delay", "120")]
    written.raised(1, kind, "", frames=[(program, 4, "<module>", "")], values=values, time=CREATED + 999)

    report = last_stacks(written.run, written.directory)

    assert report is not None
    assert behind_text(report).startswith(text)


def begun(name: str, number: int) -> dict[str, Collective]:
    return {"0": Collective(name=name, number=number, over=False, begun=1.0)}


def test_numbers_of_two_process_groups_are_not_compared(written: WrittenRun) -> None:
    of_two = {"3": Collective(name="all_reduce", number=9, over=False, members=(1, 3))}
    of_all = {"0": Collective(name="all_reduce", number=1, over=False, members=(0, 1, 2, 3))}
    taken(
        written,
        at(written, 1, ALL_REDUCE, collectives=of_two),
        *(at(written, rank, ALL_REDUCE, collectives=of_all) for rank in (0, 2, 3)),
    )
    report = last_stacks(written.run, written.directory)

    assert "number" not in behind_text(report)
    assert report.behind == ()


def test_the_collective_has_its_number_and_who_is_behind_is_said(written: WrittenRun) -> None:
    over = {"0": Collective(name="", number=6, over=True)}
    taken(
        written,
        at(written, 0, ALL_REDUCE, collectives=begun("all_reduce", 7)),
        at(written, 1, SLEEP, collectives=over),
    )
    report = last_stacks(written.run, written.directory)

    assert report is not None
    assert (
        sentence_of(written) == "rank 1 is in time.sleep at line 4; rank 0 waits in all_reduce #7 at line 8"
    )
    assert behind_text(report) == "rank 1 has begun 6 collectives, rank 0 waits in number 7"
    assert behind_text(report, "zh") == "进程 1 已发起 6 次集合通信，进程 0 在等待第 7 次"


@pytest.mark.parametrize(
    ("code", "waited", "cause"),
    [
        pytest.param(
            "time-limit",
            40,
            "rank 1 at line 4: time.sleep has not returned, which blocks ranks 0, 2, 3",
            id="half of it",
        ),
        pytest.param("time-limit", 2, "", id="for a moment"),
        pytest.param("stopped", 40, "", id="of a run that its user stopped"),
    ],
)
def test_at_the_time_limit_what_held_up_ranks_that_had_waited_long_is_the_cause(
    written: WrittenRun, code: str, waited: float, cause: str
) -> None:
    pending = {"0": Collective(name="all_reduce", number=1, over=False, begun=CREATED + 70 - waited)}
    more = [at(written, rank, ALL_REDUCE, collectives=pending) for rank in (0, 2, 3)]
    taken(written, at(written, 1, SLEEP), *more)
    written.happened(run_ended(RunState.FAILED, Reason(code, seconds=70.0)))
    report = last_stacks(written.run, written.directory)

    assert (report.hint.cause.text("en") if report.hint else "") == cause


@pytest.mark.parametrize(("waited", "held"), [(100, True), (80, False)], ids=["all the time", "mostly"])
def test_at_the_time_limit_ranks_that_have_done_nothing_but_wait_hang(
    written: WrittenRun, waited: int, held: bool
) -> None:
    for rank in range(4):
        points = [{"t": CREATED + 2 * at, "v": {"wait": waited if rank != 1 else 0}} for at in range(35)]
        written.directory.rank(rank).system.write_text("".join(json.dumps(point) + "\n" for point in points))
    taken(written, *(at(written, rank, SLEEP if rank == 1 else ALL_REDUCE) for rank in range(4)))
    written.happened(run_ended(RunState.FAILED, Reason("time-limit", seconds=70.0)))

    report, slow = last_stacks(written.run, written.directory), ended_slow(written.run, written.directory)

    assert (report.hint is not None and report.hint.signature == "hang-busy") is held
    assert (slow is None) is held


def test_at_the_time_limit_unlike_calls_are_the_cause_however_short_the_wait(written: WrittenRun) -> None:
    barrier = (ALL_REDUCE[0].replace("in all_reduce", "in barrier"), '"CELL", line 7 in <module>')
    stood = [barrier if rank else ALL_REDUCE for rank in range(4)]
    for rank in range(4):
        name = "barrier" if rank else "all_reduce"
        way = [[written.spec.program, 7 if rank else 8, "<module>"]]
        history = {"ways": [way], "groups": {"0": [[1, f"gloo:{name}", "", 0]]}}
        written.directory.rank(rank).history.write_text(json.dumps(history))
    taken(written, *(at(written, rank, calls) for rank, calls in enumerate(stood)))
    written.happened(run_ended(RunState.FAILED, Reason("time-limit", seconds=70.0)))
    report = last_stacks(written.run, written.directory)

    assert report.hint.signature == "hang-apart"
    assert "all_reduce (line 8)" in report.hint.cause.en


@pytest.mark.parametrize(
    ("first", "others", "text"),
    [
        pytest.param(
            begun("all_reduce", 5),
            begun("all_reduce", 7),
            "rank 0 waits in collective number 5, the others in number 7",
            id="each in another number",
        ),
        pytest.param(
            {"0": Collective(name="all_reduce", number=5, over=True)},
            begun("all_reduce", 7),
            "rank 0 has begun 5 collectives, the others wait in number 7",
            id="one in what is not counted",
        ),
        pytest.param(begun("broadcast", 7), begun("all_reduce", 7), "", id="each in another collective"),
        pytest.param(begun("send 0->1", 7), begun("recv 1<-0", 7), "", id="a message and who gets it"),
        pytest.param(begun("", 7), begun("all_reduce", 7), "", id="a name that is not known"),
    ],
)
def test_where_all_wait_it_is_said_whether_they_can_meet(
    written: WrittenRun, first: dict[str, Collective], others: dict[str, Collective], text: str
) -> None:
    answers = [at(written, rank, ALL_REDUCE, collectives=others if rank else first) for rank in range(4)]
    report = last_stacks(written.run, taken(written, *answers).directory)

    assert report is not None
    assert behind_text(report) == text


def test_equal_stacks_stand_together_with_the_lines_of_the_cell(written: WrittenRun) -> None:
    taken(written, *(at(written, rank, SLEEP if rank == 1 else ALL_REDUCE) for rank in range(4)))
    report = last_stacks(written.run, written.directory)

    held, waits = report.groups
    assert (held.ranks, waits.ranks, report.behind) == ((1,), (0, 2, 3), (1,))
    assert [(row.function, row.place, row.source, row.here) for row in held.rows] == [
        ("time.sleep", "built-in", "", False),
        ("augment", "cell line 4", "time.sleep(120)", True),
        ("<module>", "cell line 7", "augment(batch)", False),
    ]
    assert [(row.function, row.place) for row in waits.rows] == [
        ("all_reduce", "torch/distributed"),
        ("<module>", "cell line 8"),
    ]
    text = stacks_text(report, all_threads=True)
    assert "▸ augment     cell line 4  time.sleep(120)" in text
    assert "threading.py" in text
    assert "nbdist" not in text


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        pytest.param("stopped", "rank 0 is suspended (SIGSTOP), kill -CONT resumes it", id="T"),
        pytest.param("not ready", "rank 0 has not started its program", id="imports"),
        pytest.param("silent", "rank 0 does not answer", id="no answer"),
    ],
)
def test_a_rank_without_a_stack_is_named_with_the_reason(
    written: WrittenRun, problem: str, text: str
) -> None:
    taken(written, RankAnswer(rank=0, problem=problem))

    assert sentence_of(written) == text


def test_stacks_of_another_attempt_say_nothing_of_this_one(written: WrittenRun) -> None:
    write_stacks(written.directory, TakenStacks(time=CREATED, attempt=2, ranks=()))

    assert last_stacks(written.run, written.directory) is None


def test_a_supervisor_that_does_not_answer_is_not_waited_for(written: WrittenRun) -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds

    report = take_stacks(written.directory, 0.5, wait=wait, clock=lambda: now[0])

    assert (report.problem, report.groups) == ("no answer", ())
    assert 0.5 <= now[0] < 0.6


@pytest.mark.parametrize(
    ("line", "call"),
    [
        pytest.param("time.sleep(3)", "time.sleep", id="one call"),
        pytest.param("x = [f(y) for y in g()]", "", id="two that may be it"),
        pytest.param("results.append(queue.get())", "queue.get", id="one of two blocks"),
        pytest.param("x = 1", "", id="none"),
        pytest.param("make().run()", "", id="a call of a call"),
        pytest.param("open(name).read()", "read", id="an object without a name"),
    ],
)
def test_the_line_says_which_native_code_it_is_in(line: str, call: str) -> None:
    assert call_on_line(f"import time\n{line}\n", 2) == call


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('Thread 0x00007f03 (most recent call first):\n  File "a", line', id="half a line"),
        pytest.param("Thread 0x00007f03 (most recent call first):\n  <no Python frame>\n", id="no frame"),
        pytest.param("\x00\xff garbage", id="no dump"),
    ],
)
def test_what_is_no_whole_dump_is_read_as_far_as_it_goes(text: str) -> None:
    assert not is_whole(text)
    assert all(not thread.calls for thread in parse_dump(text))


def test_a_dump_that_ends_with_the_worker_is_whole() -> None:
    assert is_whole(dump(*SLEEP, program="/cell.py"))


EXPORTS = """\
for epoch in range(3):
    train(model)
    if rank == 0:
        weights = model.state_dict()
"""


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        pytest.param("RuntimeError", True, id="in the collective"),
        pytest.param("TypeError", False, id="of what it was given"),
    ],
)
def test_an_error_in_a_collective_that_others_do_not_make_is_told_by_what_led_there(
    tmp_path: Path, kind: str, known: bool
) -> None:
    written = WrittenRun(tmp_path / "home", cell=EXPORTS).happened(*STARTED)
    own = (written.spec.program, 4, "<module>", "")
    sharded = (f"{SITE}/torch/distributed/fsdp/_flat_param.py", 1901, "unflat_views", "")
    written.raised(0, kind, "storage of size 0 is out of bounds", time=CREATED + 69, frames=(own, sharded))
    written.happened(errored(0), exited(0, 1))
    waits = (
        f'"{SITE}/torch/distributed/distributed_c10d.py", line 9 in all_gather',
        '"CELL", line 2 in <module>',
    )
    taken(written, at(written, 1, waits))

    failure = diagnose(written.run, written.directory)

    assert (failure.hint is not None and failure.hint.signature == "met-another-call") is known


@pytest.mark.parametrize(
    ("library", "through"), [("torchmetrics/metric.py", "compute"), ("torch/optim/zero.py", "")]
)
def test_a_library_s_call_that_came_to_a_collective_is_kept(
    written: WrittenRun, library: str, through: str
) -> None:
    calls = (*ALL_REDUCE[:2], f'"{SITE}/{library}", line 700 in compute', '"CELL", line 8 in <module>')
    taken(written, at(written, 0, calls))

    report = last_stacks(written.run, written.directory)

    assert report.groups[0].place.what == "all_reduce"
    assert report.groups[0].place.through == through
