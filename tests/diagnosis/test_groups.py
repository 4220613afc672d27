"""Hints for ranks in process groups that never meet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import (
    all_joining,
    concerned,
    crossed,
    first_of,
    no_member,
    ungrouped,
    unlike,
)
from nbdist.store.reports import Collective, Issued, RankAnswer
from tests.diagnosis.hang_cells import LINES, a_program, at, reason, the_value, waiting


def test_where_all_ranks_join_the_group_it_waits_for_ranks_that_there_are_not(tmp_path: Path) -> None:
    sources = a_program(tmp_path, LINES)
    sides = [at((0,), "init_process_group", 22), at((1,), "init_process_group", 18)]

    hint = all_joining(sides, 2, sources, {})

    assert hint.cause.en.startswith("ranks 0, 1 wait in init_process_group: world_size is not 2")
    assert all_joining(sides, 3, sources, {}) is None
    assert all_joining([*sides, at((2,), "barrier", 20)], 3, sources, {}) is None


def test_ranks_that_make_their_group_again_in_the_same_store_are_told(tmp_path: Path) -> None:
    sources, call = a_program(tmp_path, LINES), Issued(1, "gloo:all_reduce", "", ())
    joining, apart = at((0,), "init_process_group", 18), at((1,), "DistributedDataParallel", 20)
    first, second = {"0": [call]}, {"0": [replace(call, made=2)]}

    hints = [
        all_joining([joining, replace(joining, ranks=(1,))], 2, sources, {0: first, 1: first}),
        all_joining([joining, apart], 2, sources, {0: first, 1: second}),
        all_joining([replace(apart, ranks=(0, 1))], 2, sources, {0: second, 1: second}),
    ]

    assert [hint.signature for hint in hints] == ["hang-made-again"] * 3
    # the rank that joins is a group ahead
    assert all_joining([joining, apart], 2, sources, {0: first, 1: first}) is None


def test_the_wait_that_began_first_concerns_the_members_of_its_group() -> None:
    sides = [at((0,), "all_reduce", 13), at((1, 2), "barrier", 20)]
    answers = [waiting(0, "1", 5.0, 0, 1), waiting(1, "0", 6.0, 0, 1, 2), waiting(2, "0", 4.0, 0, 1, 2)]

    assert [side.ranks for side in concerned(sides, answers[:2])] == [(0,), (1,)]
    assert [side.ranks for side in concerned(sides, answers)] == [(0,), (1, 2)]


def test_two_ranks_that_wait_for_each_other_in_different_groups_have_crossed() -> None:
    answers = [waiting(0, "1", 5.0, 0, 1), waiting(1, "2", 5.0, 0, 1), waiting(2, "0", 5.0, 0, 1, 2)]

    hint = crossed(answers)

    assert "rank 0 entered one process group and rank 1 another" in hint.cause.en
    assert crossed([waiting(0, "1", 5.0, 0, 3), *answers[1:]]) is None


AVERAGES = """\
def average(value, group):
    barrier(group=group)
    all_reduce(value)

average(loss, learners)
broadcast(weights)
"""


@pytest.mark.parametrize(
    ("members", "text", "named"),
    [
        pytest.param((0, 1), AVERAGES, True, id="their own group"),
        pytest.param((0, 2), AVERAGES, False, id="another group"),
        pytest.param((0, 1), AVERAGES.replace("(value)", "(value, group)"), False, id="given"),
        pytest.param((0, 1), AVERAGES.replace("(group=group)", "()"), False, id="named nowhere"),
    ],
)
def test_ranks_that_wait_for_all_and_have_a_group_are_told_to_name_it(
    tmp_path: Path, members: tuple[int, ...], text: str, named: bool
) -> None:
    own = Collective(name="barrier", number=1, over=True, begun=4.0, members=members)
    answers = [
        replace(answer, collectives={**answer.collectives, "1": own})
        for answer in (waiting(rank, "0", 5.0, 0, 1, 2) for rank in (0, 1))
    ]
    sides = [at((0, 1), "all_reduce", 5, (3, "average")), at((2,), "broadcast", 6)]

    sources = a_program(tmp_path, text)
    hint = ungrouped(sides, answers, sources)

    assert (hint is not None) is named
    if hint is not None:
        assert "all_reduce at line 3 has no group=" in hint.cause.en
        assert "have  group  (line 2)" in hint.cause.en
    # the others have made it in an earlier step
    made = Issued(number=1, name="gloo:all_reduce", given="float32 (1,)", way=sides[0].way)
    assert ungrouped(sides, answers, sources, {2: {"0": [made]}}) is None


CALLER = """\
def finish():
    barrier()
def save(norm):
    all_gather(norms, norm, group=leaders)
    finish()
save(norm)
all_reduce(grad, group=inner)
"""


@pytest.mark.parametrize(
    ("others", "text", "named"),
    [
        pytest.param((0, 1), CALLER, True, id="the group of who called it"),
        pytest.param((1, 3), CALLER, False, id="the others have such a group, too"),
        pytest.param((0, 1), CALLER.replace("leaders)", "leaders); reduce(x, group=b)"), False, id="two"),
        pytest.param((0, 1), CALLER.replace("    barrier()", "    barrier(group=g)"), False, id="given"),
    ],
)
def test_the_group_of_a_caller_is_missing_in_the_function_that_it_calls(
    tmp_path: Path, others: tuple[int, ...], text: str, named: bool
) -> None:
    own = Collective(name="all_gather", number=1, over=True, begun=4.0, members=(0, 2))
    answers = [
        replace(answer, collectives={**answer.collectives, "1": own})
        for answer in (waiting(rank, "0", 5.0, 0, 1, 2, 3) for rank in (0, 2))
    ]
    answers += [waiting(rank, "2", 5.0, *others) for rank in (1, 3)]
    sides = [at((0, 2), "barrier", 6, (5, "save"), (2, "finish")), at((1, 3), "all_reduce", 7)]

    hint = ungrouped(sides, answers, a_program(tmp_path, text))

    assert (hint is not None) is named
    if hint is not None:
        assert "barrier at line 2 has no group=" in hint.cause.en
        assert "have  leaders  (line 4)" in hint.cause.en


@pytest.mark.parametrize(
    ("value", "others", "named"),
    [
        pytest.param("None", (1, 2), True, id="of others"),
        pytest.param("ProcessGroup", (1, 2), False, id="a group"),
        pytest.param("None", (0, 1, 2), False, id="of all"),
    ],
)
def test_a_rank_that_is_no_member_waits_for_all(
    tmp_path: Path, value: str, others: tuple[int, ...], named: bool
) -> None:
    sources = a_program(tmp_path, "barrier(group=students)\nbroadcast(logits)\n")
    alone = at((0,), "barrier", 1, had=[(1, "students", value)])
    answers = [waiting(0, "0", 5.0, 0, 1, 2), waiting(1, "1", 5.0, *others)]

    hint = no_member([alone, at((1, 2), "broadcast", 2)], answers[1:], sources)

    assert (hint is not None) is named
    if hint is not None:
        assert hint.cause.en.startswith(
            "barrier at line 1 waits for all ranks, as  students  is None on rank 0"
        )
        assert hint.cause.en.endswith("outside the group of ranks 1, 2")


def test_a_loop_that_was_left_comes_before_the_groups_in_which_ranks_wait_behind_it(tmp_path: Path) -> None:
    text = "for batch in loader:\n    all_reduce(x, group=pair)\nall_reduce(total)\n"
    sides = [at((0,), "all_reduce", 2), at((1,), "all_reduce", 3)]
    answers = [waiting(0, "1", 5.0, 0, 1), waiting(1, "0", 4.0, 0, 1)]

    hint = first_of(sides, reason(a_program(tmp_path, text), *sides), answers)

    assert hint.signature == "hang-loop"
    # in one line, or where nothing parts the lines, it is the group
    assert first_of([sides[0], replace(sides[0], ranks=(1,))], hint, answers) == crossed(answers)
    assert first_of(sides, None, answers) == crossed(answers)


def test_ranks_that_wait_in_a_ring_of_groups_have_crossed() -> None:
    rows, columns = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}, {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}
    ring = [
        waiting(rank, f"{kind}{members[rank]}", 5.0, *members[rank])
        for rank, kind, members in ((0, "c", columns), (1, "r", rows), (2, "r", rows), (3, "c", columns))
    ]

    hint = crossed(ring)

    assert hint.cause.en.startswith("rank 0 entered one process group and ranks 1, 2, 3 another")
    assert (
        crossed([waiting(0, "a", 5.0, 0, 1), waiting(1, "b", 5.0, 1, 2), waiting(2, "b", 5.0, 1, 2)]) is None
    )


def test_ranks_in_one_call_with_other_shapes_are_told_by_these() -> None:
    def answer(rank: int, what: str) -> RankAnswer:
        return replace(
            waiting(rank, "0", 5.0), values=(the_value(22, "scores", what), the_value(22, "rank", str(rank)))
        )

    both = at((0, 1), "all_gather", 22)

    hint = unlike(both, [answer(0, "Tensor (4,) float32"), answer(1, "Tensor (6,) float32")])

    assert hint.cause.en.endswith("length: Tensor (4,) float32 on rank 0, Tensor (6,) float32 on rank 1")
    assert (
        unlike(both, [answer(0, "Tensor (4,) int64, 0 to 3"), answer(1, "Tensor (4,) int64, 0 to 9")]) is None
    )


STUDENTS = """\
students = new_group([0, 1])
if rank < 2:
    all_reduce(mean)
else:
    broadcast(weights)
"""


def test_ranks_that_alone_call_a_collective_may_have_meant_their_group(tmp_path: Path) -> None:
    sides = at((0, 1), "all_reduce", 3), at((2,), "broadcast", 5)

    grouped = reason(a_program(tmp_path, STUDENTS), *sides)
    plain = reason(a_program(tmp_path / "b", STUDENTS.replace("new_group", "sorted")), *sides)

    assert grouped.fix.en.endswith(", or pass it the group= of these ranks")
    assert "group" not in plain.fix.en


HELD = """\
group = new_group([0, 1])
for batch in loader:
    total(step(batch), pair)
total(seen)

def total(value, group=None):
    all_reduce(value, group=group)
"""


def test_ranks_that_are_held_elsewhere_are_no_matter_of_groups(tmp_path: Path) -> None:
    sources = a_program(tmp_path, HELD)
    whole = at((0, 1), "all_reduce", 4, (7, "total"), had=[(7, "group", "None")])
    own = Collective(name="all_reduce", number=1, over=True, begun=4.0, members=(0, 1))
    answers = [replace(waiting(rank, "0", 5.0, 0, 1, 2), collectives={"1": own}) for rank in (0, 1)]
    held = at((2,), "queue.get", 2, waits=False)

    assert ungrouped([whole, held], answers, sources) is None
    assert no_member([whole, held], [waiting(2, "2", 5.0, 2)], sources) is None
    # a default means all ranks
    assert no_member([whole, at((2,), "barrier", 9)], [waiting(2, "2", 5.0, 2)], sources) is None
