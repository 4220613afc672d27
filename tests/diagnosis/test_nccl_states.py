"""Hints for ranks on NCCL of which some ended, some wait and some work: nothing untrue."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nbdist.diagnosis.stack_text import behind_text, sentence
from nbdist.diagnosis.stacks import StackReport, last_stacks
from nbdist.model import Reason, RunState
from nbdist.store.reports import Collective, Operand, RankAnswer, TakenStacks, write_stacks
from tests.diagnosis.test_stacks import SITE, dump
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, exited, finished, rank_started, run_ended, stalled

CELL = """\
import torch.distributed as dist
for step, batch in enumerate(data):
    loss = work(batch)
    dist.all_reduce(loss)
    if rank == 0:
        print(loss.item())
    total = loss.item()
if stage == 0:
    dist.all_reduce(total, group=tensor_parallel)
dist.barrier()
"""
NOW = CREATED + 70
ALL = (0, 1, 2, 3)
C10D = f'"{SITE}/torch/distributed/distributed_c10d.py", line 1 in'
IN_STEP = (f"{C10D} all_reduce", '"CELL", line 4 in <module>')
PRINTS, COPIES = ('"CELL", line 6 in <module>',), ('"CELL", line 7 in <module>',)
IN_STAGE = (f"{C10D} all_reduce", '"CELL", line 9 in <module>')
IN_BARRIER = (f"{C10D} barrier", '"CELL", line 10 in <module>')
WORKS = '"CELL", line 3 in <module>'
RECEIVES = (f"{C10D} recv", '"CELL", line 4 in <module>')
NAMES = {4: "all_reduce", 9: "all_reduce", 10: "all_reduce_barrier"}


def a_run(home: Path, *, ended: Sequence[int] = (), ranks: int = 4) -> WrittenRun:
    written = WrittenRun(home, a_spec(ranks=ranks), cell=CELL)
    written.happened(*STARTED, *(rank_started(rank) for rank in range(2, ranks)))
    for rank in ended:
        written.happened(finished(rank), exited(rank))
    return written


def under_way(
    number: int,
    name: str = "all_reduce",
    *,
    members: Sequence[int] = ALL,
    waited: float = 40.0,
    last: int = 0,
) -> Collective:
    return Collective(
        name=name,
        number=number,
        over=False,
        begun=NOW - waited,
        last=last or number,
        members=tuple(members),
        on_device=True,
    )


def at(
    written: WrittenRun,
    rank: int,
    calls: Sequence[str],
    collective: Collective | None = None,
    group: str = "0",
) -> RankAnswer:
    values = (Operand(file=written.spec.program, line=6, name="loss", what="Tensor () float32 on cuda:0"),)
    known = {group: collective} if collective is not None else {}
    return RankAnswer(
        rank=rank, text=dump(*calls, program=written.spec.program), collectives=known, values=values
    )


def has_called(written: WrittenRun, rank: int, *lines: int) -> None:
    """Record a rank's calls in the group of all, by lines."""
    ways = [[[written.spec.program, line, "<module>"]] for line in lines]
    calls = [[at, f"nccl:{NAMES[line]}", "float32 ()", at - 1] for at, line in enumerate(lines, start=1)]
    history = {"ways": ways, "groups": {"0": calls}}
    written.directory.rank(rank).history.write_text(json.dumps(history))


def report_of(written: WrittenRun, *answers: RankAnswer) -> StackReport:
    write_stacks(written.directory, TakenStacks(time=NOW, attempt=1, ranks=answers))
    report = last_stacks(written.run, written.directory)
    assert report is not None
    return report


def cause(written: WrittenRun, *answers: RankAnswer) -> str:
    report = report_of(written, *answers)
    return report.hint.cause.en if report.hint is not None else ""


def test_a_rank_that_prints_what_all_wait_for_has_not_gone_another_way(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[3]).happened(stalled())
    stood = [at(written, rank, COPIES if rank else PRINTS, under_way(7)) for rank in range(3)]

    assert cause(written, *stood).startswith("rank 3 finished while")


def test_a_rank_that_works_is_awaited_and_not_one_that_has_ended(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[3]).happened(stalled())
    validates = at(written, 0, (f'"{SITE}/torch/nn/modules/linear.py", line 1 in forward', WORKS))
    stood = [at(written, rank, IN_STEP, under_way(7)) for rank in (1, 2)]
    report = report_of(written, validates, *stood)

    assert report.behind == (0,)
    assert report.hint is None or "ended" not in report.hint.cause.en


def test_an_if_around_a_line_that_waits_for_a_gradient_has_parted_none(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ranks=2).happened(stalled())
    prints = at(written, 0, PRINTS, under_way(7, members=(0, 1)))
    waits = at(written, 1, IN_BARRIER, under_way(8, "all_reduce_barrier", members=(0, 1)))

    assert "if rank == 0:" not in cause(written, prints, waits)


def test_a_rank_that_has_ended_in_another_group_is_not_waited_for(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[3]).happened(stalled())
    collective = under_way(2, members=(0, 1))
    stood = [at(written, rank, IN_STAGE, collective, "1") for rank in (0, 1)]

    assert cause(written, *stood) == ""


def test_a_rank_that_waits_for_one_that_has_ended_has_not_crossed_another(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[2, 3]).happened(stalled())
    waits = at(written, 0, IN_STAGE, under_way(2, members=(0, 1)), "1")
    awaited = at(written, 1, IN_STAGE, under_way(5, members=(1, 3)), "2")

    assert cause(written, waits, awaited).startswith("rank 3 finished while rank 1 still waited in")


def test_numbers_of_messages_are_not_compared_with_those_of_collectives(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ranks=2).happened(stalled())
    gets = at(written, 0, RECEIVES, under_way(3, "recv 0<-1", members=(0, 1), last=12))
    waits = at(written, 1, IN_BARRIER, under_way(12, "all_reduce_barrier", members=(0, 1)))
    report = report_of(written, gets, waits)

    assert "number 3" not in behind_text(report)
    assert "recv #3 at line 4" in sentence(report)


def test_an_if_for_the_members_of_a_group_is_not_one_for_those_that_wait_alone(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[1]).happened(stalled())
    collective = under_way(2, members=(0, 1))

    text = cause(written, at(written, 0, IN_STAGE, collective, "1"))

    assert text.startswith("rank 1 finished while rank 0 still waited in")


def test_a_rank_that_ended_after_the_same_call_is_not_said_never_to_have_come(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[1], ranks=2).happened(stalled())
    here = at(written, 0, IN_BARRIER, under_way(3, "all_reduce_barrier", members=(0, 1)))
    has_called(written, 0, 4, 4, 10)

    has_called(written, 1, 4, 4)
    assert "while rank 0 waited in barrier: it returned" in cause(written, here)
    has_called(written, 1, 4, 10)
    assert "never came to barrier" not in cause(written, here)
    has_called(written, 1, 4, 4, 10)
    assert cause(written, here) == ""


def test_a_message_is_not_what_all_ranks_have_to_call(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[3]).happened(stalled())
    collective = under_way(4, "recv 0<-1")

    assert "rank 3 ended" not in cause(written, at(written, 0, RECEIVES, collective))


def test_of_a_rank_that_does_not_answer_it_is_not_known_who_waits(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ended=[3]).happened(stalled())
    stood = [at(written, rank, IN_STEP, under_way(7)) for rank in (0, 1)]

    assert cause(written, *stood, RankAnswer(rank=2, problem="silent")) == ""


def at_the_time_limit(written: WrittenRun) -> WrittenRun:
    return written.happened(run_ended(RunState.FAILED, Reason("time-limit", seconds=70.0)))


def test_a_run_whose_ranks_are_ahead_of_their_devices_does_not_hang(tmp_path: Path) -> None:
    written = at_the_time_limit(a_run(tmp_path / "home", ranks=2))
    ahead = [under_way(7 + rank, members=(0, 1), waited=12, last=9) for rank in (0, 1)]

    assert (
        cause(written, *(at(written, rank, COPIES, collective) for rank, collective in enumerate(ahead)))
        == ""
    )
    # and one that has called less is missed
    late = Collective(name="", number=6, over=True, last=6, members=(0, 1), on_device=True)
    asleep = at(written, 1, (WORKS,), late)
    assert cause(written, at(written, 0, COPIES, ahead[0]), asleep) != ""


def test_a_pipeline_at_the_time_limit_does_not_hang(tmp_path: Path) -> None:
    written = at_the_time_limit(a_run(tmp_path / "home", ranks=2))
    names = ("send 0->1", "recv 1<-0")
    stood = [
        at(written, rank, RECEIVES, under_way(3, name, members=(0, 1), waited=1))
        for rank, name in enumerate(names)
    ]

    assert cause(written, *stood) == ""


def test_a_rank_that_ends_well_when_it_is_interrupted_had_not_ended_before(tmp_path: Path) -> None:
    written = at_the_time_limit(a_run(tmp_path / "home", ranks=2, ended=[1]))
    stood = [at(written, rank, IN_STEP, under_way(7, members=(0, 1), waited=1)) for rank in (0, 1)]
    report = report_of(written, *stood)

    assert report.ended == ()
    assert "has ended" not in sentence(report)
    assert report.hint is None


def test_ranks_of_another_group_go_on_when_some_have_ended(tmp_path: Path) -> None:
    written = at_the_time_limit(a_run(tmp_path / "home", ended=[2, 3]))
    collective = under_way(7, members=(0, 1), waited=1)

    assert cause(written, *(at(written, rank, IN_STEP, collective, "1") for rank in (0, 1))) == ""


def test_a_rank_that_compiles_or_saves_does_not_wait_for_its_device(tmp_path: Path) -> None:
    written = a_run(tmp_path / "home", ranks=2)
    for file, waits in (
        (f"{SITE}/torch/nn/modules/linear.py", True),
        (f"{SITE}/torch/_inductor/codecache.py", False),
        (f"{SITE}/torch/serialization.py", False),
        (f"{SITE}/PIL/Image.py", False),
    ):
        calls = (f'"{file}", line 1 in save', '"CELL", line 6 in <module>')
        report = report_of(written, at(written, 0, calls, under_way(7, members=(0, 1))))
        assert report.groups[0].place.waits is waits, file


def test_a_group_that_its_members_alone_make_leaves_out_none(tmp_path: Path) -> None:
    cell = "if rank < 2:\n    g = new_group([0, 1], use_local_synchronization=True)\nall_reduce(x, group=g)\n"
    written = WrittenRun(tmp_path / "home", a_spec(ranks=2), cell=cell).happened(*STARTED, stalled())
    stood = [at(written, rank, (f"{C10D} all_reduce", '"CELL", line 3 in <module>')) for rank in (0, 1)]

    assert "keeps ranks from" not in cause(written, *stood)
