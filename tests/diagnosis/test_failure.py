"""The first failure is the cause, not the first exit. The messages are those of torch 2.13 and paddle 3.3.1
with gloo on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.diagnosis import Failure, diagnose, failure_report, first_failure
from nbdist.model import RunState
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import (
    CREATED,
    STARTED,
    a_spec,
    errored,
    escalated,
    exited,
    freed,
    run_ended,
    stop_requested,
)

INNER = Path(__file__).parent / "inner_errors"
PEER_CLOSED = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:41632. This is typically caused by a remote worker crashing. Check the logs of the "
    "remote worker before reporting an error. GLHF! 🏖️"
)
PEER_RESET = (
    "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Read error "
    "[127.0.0.1]:5529: Connection reset by peer"
)
STORE_GONE = (
    "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
)
NO_GROUP = "Default process group has not been initialized, please make sure to call init_process_group."
ONE_OF_TWO = "Timed out after 9 seconds waiting for clients. 1/2 clients joined."
PADDLE_TIMEOUT = """\
done 3
W1121 00:49:59.842957  6836 backward.cc:697] While running Node (GradNodeAccumulation) raises a \
std::exception: gloo::TimeoutException
terminate called after throwing an instance of 'gloo::TimeoutException'
  what():  [/paddle/third_party/gloo/gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 1 \
pair_rank = 0 peer_str = [127.0.0.1]:198

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::pybind::ThrowExceptionToPython(std::__exception_ptr::exception_ptr)

FatalError: `Process abort signal` is detected by the operating system.
"""


def failure_of(written: WrittenRun) -> Failure:
    failure = first_failure(written.run, written.directory)
    assert failure is not None
    return failure


def test_the_rank_that_raised_first_is_the_cause(written: WrittenRun) -> None:
    # the one that raised first takes longer to exit
    written.raised(0, "ValueError", NO_GROUP, time=CREATED + 12)
    written.raised(1, "RuntimeError", "boom on rank 1", time=CREATED + 7)
    written.happened(errored(1), errored(0), exited(0, 1), exited(1, 1))

    failure = failure_of(written)

    assert (failure.rank, failure.others) == (1, (0,))
    assert failure.report.message == "boom on rank 1"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param("RuntimeError", PEER_CLOSED, id="torch: closed by peer"),
        pytest.param("RuntimeError", PEER_RESET, id="torch: reset by peer"),
        pytest.param("torch.distributed.DistNetworkError", STORE_GONE, id="torch: the store has gone"),
        pytest.param(
            "RuntimeError",
            "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] "
            "Timed out waiting 1800000ms for recv operation to complete",
            id="torch: it waited in vain",
        ),
    ],
)
def test_what_a_rank_says_of_another_is_never_the_cause(written: WrittenRun, kind: str, message: str) -> None:
    # rank 1 was killed and could say nothing; rank 0 noticed before anybody saw rank 1's exit
    written.raised(0, kind, message, time=CREATED + 7)
    written.happened(exited(0, 1, time=CREATED + 8), exited(1, -9, time=CREATED + 9))

    failure = failure_of(written)

    assert (failure.rank, failure.code, failure.report) == (1, -9, None)
    assert failure.others == (0,)


def test_what_native_code_says_of_another_is_never_the_cause(written: WrittenRun) -> None:
    written.printed(1, PADDLE_TIMEOUT).printed(0, "Traceback …\nValueError: bad batch\n")
    written.happened(exited(1, -6, time=CREATED + 8), exited(0, 1, time=CREATED + 9))

    failure = failure_of(written)

    assert failure.rank == 0
    assert failure.tail == ("Traceback …", "ValueError: bad batch")


def test_the_rank_that_never_came_is_the_cause_not_the_one_that_waited_for_it(written: WrittenRun) -> None:
    written.raised(1, "ValueError", NO_GROUP, time=CREATED + 12.7)
    written.raised(0, "torch.distributed.DistStoreError", ONE_OF_TWO, time=CREATED + 16)
    written.happened(errored(0), errored(1), exited(0, 1), exited(1, 1))

    assert failure_of(written).rank == 1


def test_a_rank_that_only_saw_another_go_is_named_when_nobody_else_failed(written: WrittenRun) -> None:
    # the other had fewer batches and was done
    written.raised(1, "RuntimeError", PEER_CLOSED)
    written.happened(exited(0, 0), errored(1), exited(1, 1))

    failure = failure_of(written)

    assert (failure.rank, failure.others) == (1, ())


def test_a_rank_that_was_told_to_end_has_not_failed(written: WrittenRun) -> None:
    written.raised(0, "RuntimeError", PEER_CLOSED, time=CREATED + 1)
    written.raised(1, "RuntimeError", "boom on rank 1", time=CREATED + 7)
    written.happened(errored(1), escalated(0), errored(0), exited(0, 1, ended=True), exited(1, 1))

    failure = failure_of(written)

    assert (failure.rank, failure.others) == (1, ())


def test_of_ranks_that_raised_at_once_the_one_that_could_write_it_is_told(written: WrittenRun) -> None:
    # rank 1 was sent SIGTERM for the failure of rank 0 while it wrote what it had raised itself
    written.raised(0, "RuntimeError", "boom", time=CREATED + 7.2)
    written.happened(errored(0, time=CREATED + 7), errored(1, time=CREATED + 7.1), escalated(1))
    written.happened(exited(1, -15), exited(0, 1))

    failure = diagnose(written.run, written.directory)

    assert (failure.rank, failure.others) == (0, (1,))
    assert [group.exit for group in failure.groups] == ["stopped by nbdist (SIGTERM)"]


@pytest.mark.parametrize("code", [None, 1, -6], ids=["on its way out", "exit 1", "abort"])
def test_what_a_freed_rank_raises_is_never_the_cause(written: WrittenRun, code: int | None) -> None:
    # as where the rank that failed left without a word, and what this one says tells of no other
    written.raised(0, "RuntimeError", "Application timeout caused pair closure", time=CREATED + 6)
    written.happened(exited(1, 1, time=CREATED + 7), freed(0), errored(0))
    if code is not None:
        written.happened(exited(0, code, ended=True))

    assert failure_of(written).rank == 1


def test_a_failure_is_known_before_its_rank_has_exited(written: WrittenRun) -> None:
    written.raised(1, "RuntimeError", "boom on rank 1")
    written.happened(errored(1))

    failure = failure_of(written)

    assert (failure.rank, failure.code) == (1, None)


def test_a_rank_that_wrote_no_report_is_known_by_the_end_of_its_log(written: WrittenRun) -> None:
    written.printed(1, "".join(f"line {n}\n" for n in range(5000)) + "Segmentation fault")
    written.happened(exited(1, -11))

    failure = failure_of(written)

    assert failure.tail == (*(f"line {n}" for n in range(4981, 5000)), "Segmentation fault")
    assert (failure.frames, failure.line) == ((), None)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="while it runs"),
        pytest.param([exited(0), exited(1), run_ended(RunState.FINISHED)], id="after success"),
        pytest.param(
            [
                stop_requested(),
                escalated(0, 1),
                exited(0, -2, ended=True),
                exited(1, -9, ended=True),
                run_ended(RunState.STOPPED),
            ],
            id="after a stop",
        ),
    ],
)
def test_where_no_rank_failed_there_is_no_failure(written: WrittenRun, events: list[object]) -> None:
    written.happened(*events)

    assert first_failure(written.run, written.directory) is None


def test_a_failure_points_at_the_innermost_line_of_the_cell(written: WrittenRun) -> None:
    cell = written.spec.program
    written.raised(
        1,
        "ValueError",
        "no",
        frames=[
            (cell, 20, "<module>", "train()"),
            (cell, 12, "train", "loss = step(batch)"),
            ("/usr/lib/python3/site-packages/torch/nn/functional.py", 400, "cross_entropy", "raise"),
        ],
    )
    written.happened(errored(1), exited(1, 1))

    assert failure_of(written).line == 12


@pytest.mark.parametrize(
    ("line", "lines"), [(12, ["values at line 12: x = None, batch = list of 2"]), (20, [])]
)
def test_what_the_names_in_that_line_were_is_said_with_it(
    written: WrittenRun, line: int, lines: list[str]
) -> None:
    cell = written.spec.program
    names = [(cell, line, "x", "None"), (cell, line, "batch", "list of 2")]
    frames = [(cell, 20, "<module>", "train()"), (cell, 12, "train", "x.y(batch)")]
    written.raised(1, "AttributeError", "no", frames=frames, operands=names)
    written.happened(errored(1), exited(1, 1))

    failure = diagnose(written.run, written.directory)

    assert [note.en for note in failure.notes] == lines


@pytest.mark.parametrize(
    ("program", "script"),
    [
        pytest.param(a_spec().program, "", id="the cell"),
        pytest.param(
            "/elsewhere/20261120-141503-lenet-k3f9/cell.py", "", id="the cell of a run that was moved"
        ),
        pytest.param("/home/ada/train.py", "train.py", id="a script"),
        pytest.param("/home/ada/cell.py", "cell.py", id="a script that is called cell.py"),
    ],
)
def test_a_script_is_told_from_a_cell(tmp_path: Path, program: str, script: str) -> None:
    written = WrittenRun(tmp_path / "home", a_spec(program=program)).happened(*STARTED, exited(0, 1))

    assert failure_of(written).sources.script == script


@pytest.mark.parametrize(
    ("full", "signature"),
    [
        pytest.param(["/dev/shm"], "shared-memory-full", id="shared memory"),
        pytest.param(["/data"], "disk-full", id="a disk"),
        pytest.param([], "disk-full", id="a quota"),
    ],
)
def test_what_was_full_is_what_the_rank_has_seen(
    written: WrittenRun, full: list[str], signature: str
) -> None:
    written.raised(0, "OSError", "[Errno 28] No space left on device", full=full)
    written.happened(errored(0), exited(0, 1))

    failure = failure_of(written)

    assert failure.hint.signature == signature


EXITED = "DataLoader worker (pid(s) 7) exited unexpectedly"
"""What torch says where its handler was not told of the end of a worker."""


@pytest.mark.parametrize("left", [None, EXITED], ids=["the connection", "torch's own words"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ConnectionResetError", "[Errno 104] Connection reset by peer"),
        ("ConnectionRefusedError", "[Errno 111] Connection refused"),
        ("BrokenPipeError", "[Errno 32] Broken pipe"),
        ("EOFError", ""),
    ],
)
def test_a_worker_that_was_killed_is_the_cause_and_not_its_closed_connection(
    written: WrittenRun, kind: str, message: str, left: str | None
) -> None:
    lines = ["Traceback (most recent call last):", '  File "connection.py", line 1, in recv']
    lines.append(f"{kind}: {message}" if message else kind)
    if left is not None:
        lines += ["", "The above exception was the direct cause of the following exception:", "", *lines[:2]]
        lines.append(f"RuntimeError: {left}")
    raised = (kind, message) if left is None else ("RuntimeError", left)
    written.raised(0, *raised, text="\n".join(lines), workers=[[7, -9]])
    written.happened(errored(0), exited(0, 1))

    failure = failure_of(written)

    assert failure.hint.signature == "loader-worker-killed"


def test_a_rank_that_could_not_be_started_did_not_leave_by_itself(written: WrittenRun) -> None:
    message = "nbdist: rank 0 could not be started: [Errno 2] No such file or directory: '/gone'"
    written.printed(0, f"{message}\n").happened(exited(0, 127))

    failure = failure_of(written)

    assert failure.complaint.root.message == message
    assert failure.hint is None


def test_a_message_with_a_whole_tensor_in_it_is_shown_by_its_ends(written: WrittenRun) -> None:
    written.raised(0, "ValueError", f"begin {'0.5 ' * 1_000_000} end").happened(errored(0), exited(0, 1))

    report = failure_report(failure_of(written))

    assert len(report) < 10_000
    assert "ValueError: begin 0.5" in report
    assert " end" in report


def test_of_a_rank_that_left_its_last_words_are_the_cause(written: WrittenRun) -> None:
    written.printed(1, "step 3\nno more batches\n").raised(1, "SystemExit", "1")
    written.happened(errored(1), exited(1, 1))

    hint = failure_of(written).hint

    assert hint.signature == "exit-after-words"
    assert "no more batches" in hint.cause.en


CELL = """\
import torch.distributed as dist
if dist.get_rank() == 0:
    dist.barrier()
dist.broadcast(weights, src=0)
"""
GAVE_UP = "Timed out waiting 6000ms for recv operation to complete"


def test_ranks_that_gave_up_in_different_places_are_told_where_their_ways_parted(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell=CELL).happened(*STARTED)
    library = ("/v/site-packages/torch/distributed/distributed_c10d.py", 3252, "barrier", "work.wait()")
    for rank, line in ((0, 3), (1, 4)):
        own = (written.spec.program, line, "<module>", "")
        written.raised(rank, "RuntimeError", GAVE_UP, time=CREATED + rank, frames=(own, library))
    # the second one was a moment late, and was told to end meanwhile
    written.happened(errored(0), errored(1), escalated(1), exited(1, -15, ended=True))

    failure = failure_of(written)

    assert failure.hint.signature == "hang-rank-branch"
    assert "rank 0 alone entered  if dist.get_rank() == 0:  (line 2)" in failure.hint.cause.en
    assert failure.groups[0].kind.endswith("(line 4)")


POLLS = """\
if dist.get_rank() == 0:
    work = dist.all_reduce(value, async_op=True)
    time.sleep(1)
backward(loss)
"""
OTHER_SIZE = (
    "pair.cc:456] op.preamble.length <= op.nbytes. 12 vs 4. Received data size doesn't match expected size"
)


@pytest.mark.parametrize(
    ("program", "name", "text"),
    [
        pytest.param(
            POLLS, "met-another-call", "a collective with async_op=True, which met", id="has begun one"
        ),
        pytest.param(POLLS.replace(", async_op=True", ""), "collective-sizes", "", id="has begun none"),
    ],
)
def test_a_rank_that_sleeps_has_not_called_what_met_another_call(
    tmp_path: Path, program: str, name: str, text: str
) -> None:
    written = WrittenRun(tmp_path / "home", cell=program).happened(*STARTED)
    own = (written.spec.program, 3, "<module>", "")
    written.raised(0, "RuntimeError", OTHER_SIZE, frames=(own,)).happened(errored(0), exited(0, 1))

    hint = failure_of(written).hint

    assert hint.signature == name
    assert text in hint.cause.en


def test_a_rank_that_was_asked_while_it_wrote_its_report_is_where_it_failed(written: WrittenRun) -> None:
    line = (a_spec().program, 3, "<module>", "dist.all_reduce(p.grad)")
    sizes = "[enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 1216 vs 448"
    written.raised(1, "RuntimeError", sizes, time=CREATED + 7, frames=[line])
    written.raised(0, "RuntimeError", PEER_RESET, time=CREATED + 8, frames=[line])
    stack = 'Thread 0x07 (most recent call first):\n  File "/lib/nbdist/worker/operands.py", line 9 in walk\n'
    answer = {"rank": 0, "text": stack, "problem": "", "blocked": False, "collectives": {}, "beats": None}
    taken = {"format": 1, "time": CREATED + 9, "attempt": 1, "ranks": [answer]}
    (written.directory.path / "stacks.json").write_text(json.dumps(taken))
    written.happened(errored(1), errored(0), exited(1, 1), exited(0, 1))

    report = diagnose(written.run, written.directory)

    assert "at line 3 the ranks passed tensors of different sizes" in report.hint.cause.en


RESUMES = """\
for epoch in range(start, 9):
    loss.backward()
dist.all_reduce(total)
"""


def test_a_rank_that_met_another_collective_is_told_of_the_rounds_of_the_others(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell=RESUMES).happened(*STARTED)
    reduces = ("/v/site-packages/torch/distributed/distributed_c10d.py", 3252, "all_reduce", "")
    backward = ("/v/site-packages/torch/autograd/graph.py", 979, "_engine_run_backward", "")
    for rank, line, error, call in ((0, 3, OTHER_SIZE, reduces), (1, 2, PEER_RESET, backward)):
        own = (written.spec.program, line, "<module>", "")
        written.raised(rank, "RuntimeError", error, time=CREATED + rank, frames=(own, call))
    written.happened(errored(0), errored(1), exited(0, 1), exited(1, 1))

    hint = failure_of(written).hint

    assert (
        "rank 0 left the loop of line 1, rank 1 did not: fewer rounds of  for epoch in range(start, 9): , or"
        in hint.cause.en
    )


@pytest.mark.parametrize("name", sorted(path.stem for path in INNER.glob("*.json")))
def test_a_failure_inside_another_is_in_the_report(written: WrittenRun, name: str) -> None:
    recorded = json.loads((INNER / f"{name}.json").read_text().replace("<program>", written.spec.program))
    written.directory.cell.write_text("\n".join(recorded.get("program", ())))
    written.printed(0, "\n".join(recorded["log"])).happened(exited(0, recorded.get("code", 1)))
    if "error" in recorded:
        written.directory.rank(0).error.write_text(json.dumps(recorded["error"]))

    report = failure_report(diagnose(written.run, written.directory))

    assert [words for words in recorded["says"] if words not in report] == [], report
    assert [words for words in recorded.get("never", ()) if words in report] == [], report
