"""Facts beside the first failure: the hint, the other ranks, early exits, absent ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis import Failure, diagnose, failure_headline, failure_report
from nbdist.model import Event, RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    a_spec,
    attempt_started,
    errored,
    escalated,
    exited,
    finished,
    rank_started,
    run_ended,
    supervisor_started,
)

CLOSED = "[/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:41632."
MEETING = f"Gloo connectFullMesh failed with {CLOSED} This is typically caused by a remote worker crashing."
LATE = "[/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation to complete"
TARGET = "Target 10 is out of bounds."
PADDLE_ABORT = """\
terminate called after throwing an instance of 'gloo::TimeoutException'
  what():  [/gloo/tcp/pair.cc:584] TIMEOUT self_rank = 1 pair_rank = 0 peer_str = [127.0.0.1]:198
"""


@pytest.fixture
def of_four(tmp_path: Path) -> WrittenRun:
    started = [supervisor_started(), attempt_started(), *(rank_started(rank) for rank in range(4))]
    return WrittenRun(tmp_path / "home", a_spec(ranks=4)).happened(*started)


def diagnosis_of(written: WrittenRun) -> Failure:
    diagnosis = diagnose(written.run, written.directory)
    assert diagnosis is not None
    return diagnosis


def test_a_run_that_went_well_has_no_diagnosis(written: WrittenRun) -> None:
    written.happened(finished(0), finished(1), exited(0), exited(1), run_ended(RunState.FINISHED))

    assert diagnose(written.run, written.directory) is None


def test_a_known_error_has_a_hint_in_both_languages(written: WrittenRun) -> None:
    written.raised(1, "IndexError", TARGET)
    written.happened(errored(1), exited(1, 1))

    hint = diagnosis_of(written).hint

    assert hint.signature == "target-out-of-range"
    assert hint.text().splitlines() == [
        "cause: the label 10 is not below the number of classes that the model puts out",
        "fix: nn.Linear(width, classes), from_pretrained(…, num_labels=classes)",
    ]
    assert [line.partition("：")[0] for line in hint.text("zh").splitlines()] == ["原因", "解决方法"]
    assert "10" in hint.text("zh")


def test_the_hint_stands_in_the_report(written: WrittenRun) -> None:
    written.raised(1, "IndexError", TARGET, frames=[(written.spec.program, 9, "<module>", "loss()")])
    written.happened(errored(1), exited(1, 1))

    report = failure_report(diagnosis_of(written)).splitlines()

    assert report == [
        "rank 1 failed first: IndexError at line 9 of the cell",
        "",
        "  cell line 9, in <module>",
        "    loss()",
        "IndexError: Target 10 is out of bounds.",
        "",
        "cause: the label 10 is not below the number of classes that the model puts out",
        "fix: nn.Linear(width, classes), from_pretrained(…, num_labels=classes)",
    ]


def test_an_unknown_error_has_no_hint_whatever_its_log_says(written: WrittenRun) -> None:
    written.printed(1, "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\nbatch halved\n")
    written.raised(1, "KeyError", "'learning_rate'")
    written.happened(errored(1), exited(1, 1))

    assert diagnosis_of(written).hint is None


def test_the_hint_is_of_the_first_failure_and_not_of_the_others(written: WrittenRun) -> None:
    written.raised(1, "KeyError", "'learning_rate'", time=CREATED + 5)
    written.raised(0, "IndexError", TARGET, time=CREATED + 6)
    written.happened(errored(1), errored(0), exited(1, 1), exited(0, 1))

    diagnosis = diagnosis_of(written)

    assert diagnosis.hint is None
    assert [(group.ranks, group.kind) for group in diagnosis.groups] == [
        ((0,), "IndexError: Target 10 is out of bounds.")
    ]


def test_what_other_ranks_said_of_the_dead_one_is_one_line(of_four: WrittenRun) -> None:
    of_four.raised(1, "RuntimeError", "boom", time=CREATED + 5)
    for rank in (0, 2):
        of_four.raised(rank, "RuntimeError", CLOSED, time=CREATED + 6)
    of_four.happened(errored(1), errored(0), errored(2), escalated(3))
    of_four.happened(*(exited(rank, 1) for rank in (0, 1, 2)), exited(3, -15, ended=True))

    report = failure_report(diagnosis_of(of_four)).splitlines()

    assert report[-2:] == ["ranks 0, 2: Connection closed by peer", "rank 3: stopped by nbdist (SIGTERM)"]


def test_a_signal_of_another_rank_is_read_aloud(written: WrittenRun) -> None:
    written.raised(0, "RuntimeError", "boom", time=CREATED + 5)
    written.happened(errored(0), exited(0, 1), exited(1, -11, time=CREATED + 9))

    assert failure_report(diagnosis_of(written)).splitlines()[-1] == (
        "rank 1: SIGSEGV (invalid memory access in native code)"
    )


@pytest.mark.parametrize("has_said_so", [True, False])
def test_a_rank_that_ended_well_too_early_is_named(written: WrittenRun, has_said_so: bool) -> None:
    written.raised(1, "RuntimeError", CLOSED, time=CREATED + 9)
    if has_said_so:
        written.happened(finished(0, time=CREATED + 7))
    written.happened(exited(0, 0, time=CREATED + 7.5), errored(1), exited(1, 1))

    diagnosis = diagnosis_of(written)

    assert diagnosis.early_exits == (0,)
    assert diagnosis.hint.signature == ("uneven-steps" if has_said_so else "left-early")
    assert failure_headline(diagnosis) == "rank 0 ended before rank 1 was done: RuntimeError"
    assert [note.en for note in diagnosis.notes] == [
        f"rank 0 ended with exit 0, {'2.0' if has_said_so else '1.5'} s before"
    ]


def test_a_rank_that_ended_well_before_the_others_had_met_is_named(written: WrittenRun) -> None:
    written.raised(0, "RuntimeError", MEETING, time=CREATED + 7.1)
    written.happened(finished(1, time=CREATED + 7), errored(0), exited(1, 0), exited(0, 1))

    diagnosis = diagnosis_of(written)

    assert (diagnosis.early_exits, diagnosis.hint.signature) == ((1,), "left-before-all-met")
    assert diagnosis.hint.cause.en.startswith(
        "rank 1 ended, or destroyed its process group, before rank 0 had joined it"
    )


def test_paddle_gives_up_in_native_code_when_another_rank_has_ended(written: WrittenRun) -> None:
    written.printed(1, PADDLE_ABORT)
    written.happened(finished(0, time=CREATED + 7), exited(0, 0), exited(1, -6, time=CREATED + 9))

    diagnosis = diagnosis_of(written)

    assert (diagnosis.rank, diagnosis.hint.signature) == (1, "uneven-steps")


def test_a_rank_that_ended_well_later_has_not_left_early(written: WrittenRun) -> None:
    written.raised(1, "RuntimeError", CLOSED, time=CREATED + 5)
    written.happened(errored(1), finished(0, time=CREATED + 7), exited(0, 0), exited(1, 1))

    assert diagnosis_of(written).early_exits == ()


def test_the_rank_that_did_not_come_is_named_with_what_it_said_last(of_four: WrittenRun) -> None:
    for rank in (0, 1, 3):
        of_four.raised(rank, "RuntimeError", LATE, time=CREATED + 5 + rank)
    of_four.printed(2, "loading the data\n")
    of_four.happened(errored(0), errored(1), errored(3), escalated(2), exited(2, -15, ended=True))
    of_four.happened(*(exited(rank, 1) for rank in (0, 1, 3)))

    diagnosis = diagnosis_of(of_four)

    assert (diagnosis.rank, diagnosis.absent) == (0, (2,))
    assert failure_headline(diagnosis) == "rank 0 waited in vain for rank 2: RuntimeError"
    assert [note.en for note in diagnosis.notes] == ["rank 2 did not come, its last line: loading the data"]
    assert diagnosis.hint.signature == "rank-did-not-come"


def test_where_all_ranks_waited_none_is_absent(written: WrittenRun) -> None:
    for rank in (0, 1):
        written.raised(rank, "RuntimeError", LATE, time=CREATED + 5 + rank)
    written.happened(errored(0), errored(1), exited(0, 1), exited(1, 1))

    diagnosis = diagnosis_of(written)

    assert diagnosis.absent == ()
    assert diagnosis.hint.signature == "gloo-timeout"


@pytest.mark.parametrize("code", [-11, 3], ids=["crashed", "left"])
def test_a_rank_that_failed_while_it_was_being_ended_is_the_cause_of_what_the_others_saw(
    written: WrittenRun, code: int
) -> None:
    # its peer noticed the closed connection before its exit was seen
    written.raised(0, "RuntimeError", CLOSED, time=CREATED + 5)
    written.happened(errored(0), escalated(1), exited(1, code, ended=True), exited(0, 1))

    diagnosis = diagnosis_of(written)

    assert (diagnosis.rank, diagnosis.others) == (1, (0,))


@pytest.mark.parametrize(
    ("done", "seen"),
    [
        pytest.param([finished(0, time=CREATED + 5.4)], CREATED + 6, id="it had finished"),
        pytest.param([], CREATED + 7, id="it had left by itself"),
    ],
)
def test_a_rank_whose_good_end_was_seen_late_has_left_early(
    written: WrittenRun, done: list[Event], seen: float
) -> None:
    written.raised(1, "RuntimeError", CLOSED, time=CREATED + 5)
    written.happened(errored(1), *done, exited(0, 0, ended=True, time=seen), exited(1, 1))

    assert diagnosis_of(written).early_exits == (0,)


def test_an_error_that_was_printed_before_the_rank_left_is_the_cause(written: WrittenRun) -> None:
    written.printed(
        1,
        "Traceback (most recent call last):\n"
        f'  File "{written.spec.program}", line 4, in load\n'
        "    open(path)\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'train.csv'\n",
    )
    written.happened(exited(1, 1))

    diagnosis = diagnosis_of(written)

    assert failure_headline(diagnosis) == ("rank 1 failed first: FileNotFoundError at line 4 of the cell")
    assert diagnosis.hint.signature == "file-missing"


def test_an_error_far_from_the_end_of_the_log_is_not_the_cause_of_an_exit(written: WrittenRun) -> None:
    handled = "Traceback (most recent call last):\nValueError: handled\n"
    written.printed(1, handled + "step\n" * 200)
    written.happened(exited(1, 3))

    assert failure_headline(diagnosis_of(written)) == "rank 1 failed first: exit 3"


def test_a_killed_rank_is_not_blamed_on_what_it_had_printed(written: WrittenRun) -> None:
    written.printed(1, "Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n")
    written.happened(exited(1, -9))

    diagnosis = diagnosis_of(written)

    assert diagnosis.hint.signature == "exit-killed"
