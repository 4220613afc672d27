"""Reports of ranks whose waits nbdist ended."""

from __future__ import annotations

from nbdist.feed.stalling import freed_texts
from tests.diagnosis.test_stacks import ALL_REDUCE, SITE, SLEEP, at, taken, written
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import freed

__all__ = ["written"]


def test_it_is_said_where_they_were(written: WrittenRun) -> None:
    written.happened(freed(0), freed(2))
    taken(written, *(at(written, rank, ALL_REDUCE) for rank in (0, 1, 2)), at(written, 3, SLEEP))

    (text,) = freed_texts(written.run, written.directory)

    assert text.en == "ranks 0, 2 were waiting in all_reduce at line 8 and were interrupted"
    assert text.zh == "进程 0, 2 曾在第 8 行等待 all_reduce，已被中断"


def test_where_they_were_may_be_unknown(written: WrittenRun) -> None:
    (text,) = freed_texts(written.happened(freed(3)).run, written.directory)

    assert text.en == "rank 3 was waiting and was interrupted"
    assert text.zh == "进程 3 曾等待，已被中断"


def test_where_a_rank_was_before_it_came_to_its_wait_is_not_said(written: WrittenRun) -> None:
    written.happened(freed(3))
    in_a_library = (f'"{SITE}/sklearn/metrics.py", line 3 in classification_report', SLEEP[1])
    taken(written, at(written, 0, ALL_REDUCE), at(written, 3, in_a_library))

    (text,) = freed_texts(written.run, written.directory)

    assert text.en == "rank 3 was waiting and was interrupted"


def test_the_wait_that_it_raised_from_counts_more_than_an_earlier_look(written: WrittenRun) -> None:
    written.happened(freed(0), freed(1))
    taken(written, at(written, 0, ALL_REDUCE), at(written, 1, ALL_REDUCE))
    gather = (f"{SITE}/torch/distributed/distributed_c10d.py", 9, "all_gather", "work.wait()")
    frames = ((written.run.spec.program, 12, "main", ""), gather)
    written.raised(1, "KeyboardInterrupt", "", frames=frames)

    first, second = freed_texts(written.run, written.directory)

    assert first.en == "rank 0 was waiting in all_reduce at line 8 and was interrupted"
    assert second.en == "rank 1 was waiting in all_gather at line 12 and was interrupted"


def test_a_wait_whose_wrapper_raised_has_the_name_that_the_program_calls(written: WrittenRun) -> None:
    logger = f"{SITE}/torch/distributed/c10d_logger.py"
    frames = (
        (written.run.spec.program, 8, "step", ""),
        (logger, 85, "wrapper", ""),
        (logger, 53, "_get_msg_dict", ""),
    )
    written.happened(freed(1)).raised(1, "KeyboardInterrupt", "", frames=frames)

    (text,) = freed_texts(written.run, written.directory)

    assert text.en == "rank 1 was waiting in all_reduce at line 8 and was interrupted"


def test_most_runs_have_none(written: WrittenRun) -> None:
    assert freed_texts(written.run, written.directory) == ()
