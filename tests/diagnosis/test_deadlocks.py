"""Why ranks that wait never meet, from their lines in a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import (
    fewest,
    why,
)
from nbdist.diagnosis.hangs.leaving import called_alone, entered_alone, ways_past
from nbdist.diagnosis.positions import Side
from nbdist.programs.branches import head
from nbdist.programs.sources import CodeLocation, Sources, place_of
from nbdist.store.reports import Call
from nbdist.text import Both, both
from tests.diagnosis.hang_cells import (
    BARRIER,
    COUNTS,
    a_program,
    a_side,
    at,
    more,
    reason,
    sources,
    the_value,
)
from tests.fakes.runs import a_spec

__all__ = ["more", "sources"]


NESTED = """\
def epoch():
    for batch in loader:
        backward(batch)
    return 0

for _ in range(3):
    epoch()
barrier()
"""


@pytest.mark.parametrize(
    ("first", "second", "name", "said"),
    [
        pytest.param(
            ("barrier", 20),
            ("all_gather", 22),
            "hang-rank-branch",
            "rank 1 alone went into  else of if dist.get_rank() == 0:  (line 17), and called barrier there",
            id="the else of a branch for one rank",
        ),
        pytest.param(
            ("gather", 11, 4),
            ("backward", 14),
            "hang-rank-branch",
            "rank 1 alone went into  if main:  (line 10), and called gather there",
            id="a name that stands for the rank",
        ),
        pytest.param(
            ("all_reduce", 13),
            ("backward", 14),
            "hang-branch",
            "rank 1 went into  if boxes:  (line 12), and rank 0 did not",
            id="a branch that the data decides",
        ),
        pytest.param(
            ("barrier", 35, 31),
            ("backward", 33),
            "hang-rank-branch",
            "rank 1 alone went into  if rank == 0:  (line 30), and called barrier there",
            id="a branch for one rank in a function that both called",
        ),
        pytest.param(
            ("all_gather", 44),
            ("barrier", 45),
            "hang-rank-branch",
            "rank 1 alone went into  if trainer.is_global_zero:  (line 43), and called all_gather there",
            id="a trainer's word for the first rank",
        ),
        pytest.param(
            ("backward", 14),
            ("all_gather", 22),
            "hang-loop-left",
            "rank 0 left the loop of line 6, rank 1 not: fewer steps, or one left out or"
            " added at line 8  if loss > 9:, line 12  if boxes:",
            id="one has left the loop",
        ),
        pytest.param(
            ("backward", 25),
            ("barrier", 28),
            "hang-loop-caught",
            "or one cut short by  except RuntimeError:  (line 26)",
            id="one has left a step out",
        ),
    ],
)
def test_where_their_ways_parted_is_said(
    sources: Sources, first: tuple[str, int], second: tuple[str, int], name: str, said: str
) -> None:
    hint = reason(sources, a_side((1,), first[0], *first[1:]), a_side((0,), second[0], *second[1:]))

    assert hint.signature == name
    assert said in hint.cause.en


def test_a_return_that_others_took_is_named(sources: Sources) -> None:
    hint = reason(sources, a_side((0,), "gather", 11, 4), a_side((1, 2), "save", 12))

    assert hint.signature in ("hang-rank-return", "hang-rank-branch")
    assert "rank 0" in hint.cause.en


@pytest.mark.parametrize(
    ("what", "line", "name"),
    [
        pytest.param("queue.get", 22, "hang-inside", id="a queue"),
        pytest.param("time.sleep", 16, "hang-goes-round", id="a loop that looks"),
        pytest.param("time.sleep", 42, "hang-busy", id="a loop that looks some times"),
        pytest.param("time.sleep", 37, "hang-busy", id="a loop that comes to its end"),
        pytest.param("numpy.dot", 16, "hang-goes-round", id="a loop that does not end"),
        pytest.param("read", 7, "hang-busy", id="a call"),
    ],
)
def test_a_rank_that_does_not_come_is_told_by_what_it_is_in(
    sources: Sources, what: str, line: int, name: str
) -> None:
    held = a_side((1,), what, line, waits=False)

    hint = reason(sources, held, a_side((0, 2), "all_gather", 22))

    assert hint.signature == name
    assert "rank 1" in hint.cause.en


def test_a_rank_behind_the_branch_that_another_waits_in_never_comes_there(sources: Sources) -> None:
    hint = reason(sources, a_side((0,), "save", 18), a_side((1,), "time.sleep", 22, waits=False))

    assert hint.signature == "hang-rank-branch"
    assert "rank 0 alone went into  if dist.get_rank() == 0:  (line 17)" in hint.cause.en


def test_a_rank_before_the_branch_that_another_waits_in_may_still_come_there(sources: Sources) -> None:
    hint = reason(sources, a_side((0,), "save", 18), a_side((1,), "train", 7, waits=False))

    assert hint.signature == "hang-busy"


def test_a_collective_in_a_library_is_told_with_the_call_of_the_program() -> None:
    side = a_side((0,), "barrier", 20)

    assert (
        replace(side, place=replace(side.place, through="metrics.compute")).call
        == "barrier in metrics.compute"
    )


@pytest.mark.parametrize(
    ("line", "function", "through"),
    [
        pytest.param("print(float(roc.compute()))", "wrapped_func", "roc.compute", id="renamed"),
        pytest.param("print(roc.compute())", "compute", "roc.compute", id="by its name"),
        pytest.param("log(trainer.metrics)", "metrics", "metrics", id="a property"),
        pytest.param("log(roc.compute())", "wrapped_func", "wrapped_func", id="one of two"),
    ],
)
def test_a_call_that_a_decorator_has_renamed_is_told_as_it_is_written(
    tmp_path: Path, line: str, function: str, through: str
) -> None:
    site = "/v/lib/python3.11/site-packages"
    calls = [
        Call(file=f"{site}/torch/distributed/distributed_c10d.py", line=5000, function="barrier"),
        Call(file=f"{site}/torchmetrics/metric.py", line=700, function=function),
        Call(file=a_spec().program, line=1, function="<module>"),
    ]

    assert place_of(calls, a_program(tmp_path, line)).through == through


def test_a_save_in_a_distributed_checkpoint_has_its_own_name(tmp_path: Path) -> None:
    folder = "/v/lib/python3.11/site-packages/torch/distributed/checkpoint"
    calls = [
        Call(file=f"{folder}/state_dict_saver.py", line=190, function="save"),
        Call(file=f"{folder}/utils.py", line=470, function="inner_func"),
        Call(file=a_spec().program, line=1, function="<module>"),
    ]

    assert place_of(calls, a_program(tmp_path, "dcp.save(state)")).what == "save"


def test_ranks_in_one_collective_have_no_reason_to_wait(sources: Sources) -> None:
    assert why([a_side((0, 1), "all_gather", 22)], sources, {}) is None


def test_a_branch_of_the_first_rank_is_known_from_that_rank_alone(sources: Sources) -> None:
    alone = entered_alone(a_side((0,), "all_gather", 44), sources)

    assert alone is not None
    assert alone["went"] == Both(
        "went into  if trainer.is_global_zero: ", "进入了  if trainer.is_global_zero:  "
    )
    assert (alone["line"], alone["call"]) == ("43", "all_gather")


def test_a_return_of_the_other_ranks_is_known_from_the_rank_that_came_past_it(sources: Sources) -> None:
    alone = entered_alone(at((0,), "gather", (11, "<module>"), (4, "validate")), sources)

    assert alone is not None
    assert alone["went"] == both("diagnosis.went-past", test="if rank != 0:")
    assert alone["line"] == "2"


def test_what_can_leave_out_a_call_is_a_return_before_it(more: Sources) -> None:
    left = ways_past(at((1,), "all_reduce", (30, "<module>"), (22, "share")), more)

    assert [(node.lineno, head(node)) for node in left] == [(20, "if not hard:")]


def test_what_can_leave_out_a_call_is_a_way_out_of_its_loop(sources: Sources) -> None:
    left = ways_past(a_side((1,), "backward", 14), sources)

    assert [(node.lineno, head(node)) for node in left] == [(8, "if loss > 9:")]
    assert ways_past(a_side((0,), "barrier", 20), sources) == []


def test_what_can_leave_out_a_call_is_an_end_of_the_program_before_it(tmp_path: Path) -> None:
    text = "if not rows:\n    print('none')\n    sys.exit(0)\nfor row in rows:\n    all_reduce(row)\n"

    left = ways_past(a_side((0,), "all_reduce", 5), a_program(tmp_path, text))

    assert [(node.lineno, head(node)) for node in left] == [(1, "if not rows:")]


def test_of_two_loops_the_one_over_data_is_the_one_that_was_left(tmp_path: Path) -> None:
    nested = a_program(tmp_path, NESTED)

    hint = reason(
        nested, at((0,), "backward", (7, "<module>"), (3, "epoch")), at((1,), "barrier", (8, "<module>"))
    )

    assert hint.signature == "hang-loop"
    assert "rank 1 left the loop of line 2, rank 0 did not: fewer rounds of  for" in hint.cause.en


RETRIES = """\
def wrapper(step):
    for attempt in range(3):
        try:
            return step()
        except OSError:
            pass

def step():
    for p in model.parameters():
        all_reduce(p.grad)

for index in range(25):
    wrapper(step)
barrier()
"""


KEEPS = """\
def update(value):
    if value >= best:
        return False
    barrier()
    return True

for epoch in range(8):
    for batch in batches:
        backward(batch)
    update(validate())
"""


ON_MAIN = """\
def wrapper(save):
    if dist.get_rank() == 0:
        return save()

def save():
    barrier()

for epoch in range(6):
    loss = average(run_epoch(model, rank))
    if loss < best:
        wrapper(save)
    backward(loss)
"""


def test_a_step_that_is_tried_again_is_cut_short_by_what_catches(tmp_path: Path) -> None:
    way = ((13, "<module>"), (4, "wrapper"), (10, "step"))

    hint = reason(
        a_program(tmp_path, RETRIES), at((1,), "all_reduce", *way), at((0,), "barrier", (14, "<module>"))
    )

    assert hint.signature == "hang-loop-caught"
    assert "rank 0 left the loop of line 12, rank 1 not" in hint.cause.en
    assert "except OSError:  (line 5)" in hint.cause.en


def test_a_return_before_the_call_of_those_that_left_a_loop_may_have_parted_them(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, KEEPS),
        at((0,), "barrier", (10, "<module>"), (4, "update")),
        at((1,), "backward", (9, "<module>")),
    )

    assert hint.signature == "hang-loop-left"
    assert hint.cause.en.endswith("one left out or added at line 2  if value >= best:")


SAVES_BEST = """\
def save(model):
    barrier()

for epoch in range(6):
    for batch in loader:
        backward(batch)
    for name in splits:
        accuracy = evaluate(name)
        if accuracy > best:
            save(model)
"""


def test_an_if_around_the_call_of_those_that_left_a_loop_may_have_parted_them(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, SAVES_BEST),
        at((0,), "barrier", (10, "<module>"), (2, "save")),
        at((1,), "backward", (6, "<module>")),
    )

    assert hint.signature == "hang-loop-left"
    assert hint.cause.en.endswith("one left out or added at line 9  if accuracy > best:")


def test_values_that_an_if_has_changed_since_do_not_say_that_it_was_alike(tmp_path: Path) -> None:
    text = SAVES_BEST.replace("            save(model)", "            best = accuracy; save(model)")
    values = (the_value(9, "accuracy", "0.9"), the_value(9, "best", "0.9"))
    saves = replace(at((0,), "barrier", (10, "<module>"), (2, "save")), values=values)

    hint = reason(
        a_program(tmp_path, text), saves, replace(at((1,), "backward", (6, "<module>")), values=values)
    )

    assert hint.cause.en.endswith("one left out or added at line 9  if accuracy > best:")


def test_a_value_of_a_call_that_was_given_the_rank_is_none_of_the_ranks(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, ON_MAIN),
        at((0,), "barrier", (11, "<module>"), (3, "wrapper"), (6, "save")),
        at((1,), "backward", (12, "<module>")),
    )

    assert hint.signature == "hang-rank-branch"
    assert "rank 0 alone went into  if dist.get_rank() == 0:  (line 2)" in hint.cause.en


def test_a_loop_without_end_is_left_by_what_ends_it(tmp_path: Path) -> None:
    budget = a_program(tmp_path, "while True:\n    backward(step())\nbarrier()\n")

    hint = reason(budget, at((0,), "backward", (2, "<module>")), at((1,), "barrier", (3, "<module>")))

    assert hint.signature == "hang-while"
    assert "all_reduce what ends the loop" in hint.fix.en


def test_those_elsewhere_than_most_are_fewest(sources: Sources) -> None:
    most = a_side((0, 2), "backward", 14)

    assert fewest([most, a_side((1,), "all_gather", 22)]) == (1,)
    assert fewest([a_side((0,), "backward", 14), a_side((1,), "all_gather", 22)]) == ()


def test_a_loop_in_a_function_that_one_rank_has_come_out_of_parted_them(more: Sources) -> None:
    hint = reason(more, at((0,), "backward", (29, "<module>"), (15, "train")), BARRIER)

    assert hint.signature == "hang-loop-caught"
    assert "rank 1 left the loop of line 13, rank 0 not" in hint.cause.en
    assert "except RuntimeError:  (line 16)" in hint.cause.en


def test_a_return_that_the_data_decides_may_have_parted_them(more: Sources) -> None:
    hint = reason(more, at((0,), "all_reduce", (30, "<module>"), (22, "share")), BARRIER)

    assert hint.signature == "hang-return"
    assert "it may have returned at  if not hard:  (line 20)" in hint.cause.en


def test_an_if_that_the_other_rank_goes_into_by_its_number_has_not_parted_them(more: Sources) -> None:
    other = replace(at((1,), "gather", (45, "<module>")), values=(the_value(32, "rank", "1"),))

    hint = reason(more, at((0,), "all_reduce", (34, "<module>")), other)

    assert hint.signature == "hang-branch"
    assert "rank 0 went into  if lucky:  (line 33)" in hint.cause.en


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        pytest.param("True", "False", ": lucky is True on rank 0, False on rank 1", id="unlike"),
        pytest.param("True", "True", None, id="alike"),
    ],
)
def test_the_values_of_a_condition_say_whether_it_parted_them(
    more: Sources, mine: str, theirs: str, said: str | None
) -> None:
    one = replace(at((0,), "all_reduce", (34, "<module>")), values=(the_value(33, "lucky", mine),))
    values = (the_value(32, "rank", "1"), the_value(33, "lucky", theirs))

    hint = reason(more, one, replace(at((1,), "gather", (45, "<module>")), values=values))

    assert hint.signature == ("hang-branch" if said else "hang-apart")
    assert (said or "") in hint.cause.en


def test_an_if_whose_other_part_calls_the_same_has_not_parted_them(more: Sources) -> None:
    hint = reason(more, at((0,), "broadcast", (36, "<module>")), at((1,), "gather", (45, "<module>")))

    assert hint.signature == "hang-apart"


def test_ranks_that_came_round_without_a_call_are_told_by_what_let_them(more: Sources) -> None:
    hint = reason(more, at((0,), "all_reduce", (48, "<module>")), at((1,), "gather", (45, "<module>")))

    assert hint.signature == "hang-round"
    assert "rank 1 came round to gather without it, by line 46  if step == skipped:" in hint.cause.en


TELLS = """\
class Saver:
    def is_writer(self):
        \"\"\"Whether this rank writes.\"\"\"
        return dist.get_rank() == 0
    @property
    def writes(self):
        return self.rank == 0
    def is_due(self, step):
        return step % 3 == 0 and self.best > 0
for step in range(9):
    backward(step)
    if saver.{test}:
        gather(state)
"""


@pytest.mark.parametrize(
    ("test", "alone"),
    [
        pytest.param("is_writer()", True, id="a method that tells of the rank"),
        pytest.param("writes", True, id="a property"),
        pytest.param("is_due(step)", False, id="a method that does not"),
    ],
)
def test_a_function_that_tells_of_the_rank_is_an_if_for_some_ranks(
    tmp_path: Path, test: str, alone: bool
) -> None:
    sources = a_program(tmp_path, TELLS.replace("{test}", test))
    saver = at((0,), "gather", (13, "<module>"))

    hint = reason(sources, saver, at((1,), "backward", (11, "<module>")))

    assert (hint.signature == "hang-rank-branch") is alone
    assert (entered_alone(saver, sources) is not None) is alone


@pytest.mark.parametrize(
    ("line", "functions", "what"),
    [
        pytest.param(
            "norm = get_total_norm([p.grad for p in model.parameters()])",
            ("_no_grad_wrapper", "_get_total_norm", "_dispatch_slow_path"),
            "get_total_norm",
            id="as the line has it",
        ),
        pytest.param(
            "loss = entropy(model(x), randn(3))",
            ("_wrapped_call_impl", "forward", "_pre_forward"),
            "forward",
            id="not a library's own business",
        ),
    ],
)
def test_a_collective_within_a_library_has_a_name_that_a_program_knows(
    tmp_path: Path, line: str, functions: tuple[str, ...], what: str
) -> None:
    site = "/v/lib/python3.11/site-packages/torch"
    library = [Call(file=f"{site}/nn/m.py", line=1, function=function) for function in functions[:-1]]
    inner = Call(file=f"{site}/distributed/tensor/_dispatch.py", line=1, function=functions[-1])
    own = Call(file=a_spec().program, line=1, function="<module>")

    place = place_of([inner, *reversed(library), own], a_program(tmp_path, f"{line}\n"))

    assert place.what == what


ALONE = """\
def validate(model):
    total = model.module(x).mean()
    {call}
for step in range(9):
    backward(step)
    if {test}:
        validate(model)
    if dist.get_rank() == 0:
        print(step)
"""


@pytest.mark.parametrize(
    ("call", "test", "known"),
    [
        pytest.param("dist.all_reduce(total)", "rank == 0 and step == 3", True, id="a collective"),
        pytest.param("print(total)", "rank == 0 and step == 3", False, id="none"),
        pytest.param("plt.scatter(total.gather(0, x))", "rank == 0", False, id="others by such names"),
        pytest.param("dist.all_reduce(total, group=evaluators)", "rank < 2", False, id="in a group"),
        pytest.param("dist.all_reduce(total)", "step == 3", False, id="on all ranks"),
    ],
)
def test_what_some_ranks_alone_call_in_a_loop_is_named(
    tmp_path: Path, call: str, test: str, known: bool
) -> None:
    sources = a_program(tmp_path, ALONE.replace("{call}", call).replace("{test}", test))

    found = called_alone(a_side((0, 1), "backward", 5), sources)

    if known:
        assert found is not None
        assert (found[0].lineno, found[1]) == (6, "all_reduce")
    else:
        assert found is None


ROUNDS = """\
def save(step):
    barrier()

for step in range(12):
    if step % 4 == 3:
        save(step)
    broadcast(step)
"""


def test_an_if_that_asks_for_the_round_alone_has_not_parted_them(tmp_path: Path) -> None:
    inside, ahead = at((0,), "barrier", (6, "<module>"), (2, "save")), a_side((1,), "broadcast", 7)
    sides = [
        replace(side, values=(the_value(5, "step", str(step)),)) for side, step in ((inside, 3), (ahead, 4))
    ]

    assert reason(a_program(tmp_path, ROUNDS), *sides).signature != "hang-branch"


SWALLOWS = """\
def fetch(batches):
    try:
        return next(batches)
    except Exception:
        return None

while (batch := fetch(batches)) is not None:
    backward(batch)
barrier()
"""


CAUGHT = """\
def validate(epoch):
    try:
        score(epoch)
        barrier()
    except ValueError:
        log(epoch)
def reduced(loss):
    if loss is None:
        return loss
    all_reduce(loss)
for epoch in range(9):
    for step in range(4):
        backward(step)
    if epoch % 2 == 0:
        validate(epoch)
for batch in loader:
    try:
        reduced(loss(batch))
    except RuntimeError:
        losses.append(0)
    all_gather_object(losses)
try:
    reduced(loss(batch))
except KeyboardInterrupt:
    print("stopped")
barrier()
"""


@pytest.mark.parametrize(
    ("inside", "outside", "name", "tests"),
    [
        pytest.param(
            at((0,), "barrier", (15, "<module>"), (4, "validate")),
            a_side((1,), "backward", 13),
            "hang-caught",
            "line 5  except ValueError:",
            id="came round",
        ),
        pytest.param(
            at((0,), "all_reduce", (18, "<module>"), (10, "reduced")),
            a_side((1,), "all_gather_object", 21),
            "hang-caught",
            "line 8  if loss is None:, line 19  except RuntimeError:",
            id="is behind, or has returned",
        ),
        pytest.param(
            at((0,), "all_reduce", (23, "<module>"), (10, "reduced")),
            a_side((1,), "barrier", 26),
            "hang-return",
            "if loss is None:  (line 8)",
            id="an interrupt is for all ranks",
        ),
    ],
)
def test_what_is_caught_around_a_call_may_have_left_it_out(
    inside: Side, outside: Side, name: str, tests: str, tmp_path: Path
) -> None:
    found = reason(a_program(tmp_path, CAUGHT), inside, outside)

    assert found.signature == name
    assert tests in found.cause.en


def test_an_if_that_asks_for_a_count_of_the_loop_has_not_parted_them(tmp_path: Path) -> None:
    sides = [
        replace(
            a_side((rank,), "backward", line),
            values=(the_value(6, "step", str(9 + rank)), the_value(6, "args.each", "2")),
        )
        for rank, line in enumerate((7, 5))
    ]

    found = reason(a_program(tmp_path, COUNTS), *sides)

    assert found.signature == "hang-round"
    assert found.cause.en.endswith(", by line 3  if nan(batch):")


LIMITS = """\
for step, batch in enumerate(loader):
    if step >= args.most:
        break
    if stop:
        break
    backward(batch)
barrier()
"""


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        pytest.param("500", "added at line 4  if stop:", id="alike"),
        pytest.param("40", "added at line 2  if step >= args.most:, line 4  if stop:", id="unlike"),
    ],
)
def test_a_limit_of_rounds_that_all_have_alike_lets_no_rank_out(
    theirs: str, said: str, tmp_path: Path
) -> None:
    sides = [
        replace(side, values=(the_value(2, "step", step), the_value(2, "args.most", most)))
        for side, step, most in (
            (a_side((0,), "backward", 6), "41", "500"),
            (a_side((1,), "barrier", 7), "40", theirs),
        )
    ]

    found = reason(a_program(tmp_path, LIMITS), *sides)

    assert found.signature == "hang-loop-left"
    assert found.cause.en.endswith(said)


@pytest.mark.parametrize(("over", "line"), [("enumerate(buffers)", 2), ("model.buffers()", 1)])
def test_buffers_of_a_model_are_as_many_on_each_rank_and_a_list_of_that_name_may_not_be(
    over: str, line: int, tmp_path: Path
) -> None:
    text = "for step in range(3):\n    for one in OVER:\n        broadcast(one)\nbarrier()\n"
    sides = [a_side((0,), "broadcast", 3), a_side((1,), "barrier", 4)]

    found = reason(a_program(tmp_path, text.replace("OVER", over)), *sides)

    assert f"rank 1 left the loop of line {line}" in found.cause.en


def test_what_a_loop_calls_may_have_caught_what_ended_it(tmp_path: Path) -> None:
    sources = a_program(tmp_path, SWALLOWS)

    hint = reason(sources, a_side((0,), "backward", 8), a_side((1,), "barrier", 9))

    assert "one cut short by  except Exception:  (line 4)" in hint.cause.en
    assert [head(way) for way in ways_past(a_side((0,), "backward", 8), sources)] == ["except Exception:"]


SKIPS = """\
def maybe_save(saver):
    if time.time() - saver.last < 60:
        return
    barrier()

for step in range(400):
    backward(step)
    maybe_save(saver)
"""


def test_those_who_came_round_may_have_left_a_call_out_in_a_function(tmp_path: Path) -> None:
    hint = reason(
        a_program(tmp_path, SKIPS),
        at((1,), "barrier", (8, "<module>"), (4, "maybe_save")),
        at((0,), "backward", (7, "<module>")),
    )

    assert hint.signature == "hang-round"
    assert hint.cause.en.endswith("line 2  if time.time() - saver.last < 60:")


SWAPPED = """\
def average():
    for p in parameters:
        all_reduce(p)

def norm():
    all_reduce(total)

def update():
    if (row + column) % 2:
        average()
        norm()
    else:
        norm()
        average()

update()
"""


def test_the_same_calls_in_another_order_are_told_by_the_if(tmp_path: Path) -> None:
    up, start = (10, "update"), (16, "<module>")

    hint = reason(
        a_program(tmp_path, SWAPPED),
        at((0, 3), "all_reduce", start, up, (3, "average")),
        at((1, 2), "all_reduce", start, (13, "update"), (6, "norm")),
    )

    assert hint.signature == "hang-order"
    assert "line 9  if (row + column) % 2:" in hint.cause.en


RETURNS = """\
def step(batch):
    if bad(batch):
        return
    all_gather(counts)
for batch in loader:
    step(batch)
barrier()
"""


def test_a_return_in_what_a_loop_calls_may_have_left_out_a_step(tmp_path: Path) -> None:
    inside, outside = (
        at((0,), "all_gather", (6, "<module>"), (4, "step")),
        at((1,), "barrier", (7, "<module>")),
    )

    found = reason(a_program(tmp_path, RETURNS), inside, outside)

    assert found.signature == "hang-loop-left"
    assert "line 2  if bad(batch):" in found.cause.en


VALIDATES = """\
def run(model):
    return model(x)
def validate(rank, model):
    if rank != 0:
        barrier()
        return
    run(model)
    barrier()
validate(rank, model)
"""


def test_ranks_that_wait_for_the_first_have_not_called_what_that_is_in(tmp_path: Path) -> None:
    waits = at((1,), "barrier", (9, "<module>"), (5, "validate"))
    alone = at((0,), "forward", (9, "<module>"), (7, "validate"), (2, "run"))

    found = reason(a_program(tmp_path / "in", VALIDATES), waits, alone)

    assert found.signature == "hang-rank-return"
    assert (
        found.cause.en == "rank 0 alone came past  if rank != 0:  (line 4) and called forward, rank 1 did not"
    )
    assert "model.module" in found.fix.en
    text = VALIDATES.replace("    run(model)\n    barrier()", "    run(model)\n    print()")
    assert reason(a_program(tmp_path / "not", text), waits, alone).signature == "hang-rank-return"


@pytest.mark.parametrize(
    "test",
    [
        "not dist.is_initialized()",
        "not (dist.is_available() and dist.is_initialized())",
        "not is_dist_avail_and_initialized()",
        "args.local_rank == -1",
        "rank is None or world_size < 2",
        "'RANK' not in os.environ",
        "not use_ddp",
    ],
)
def test_a_return_that_all_ranks_take_or_none_has_not_parted_them(test: str, tmp_path: Path) -> None:
    text = f"""\
def sums(value):
    if {test}:
        return value
    if value is None:
        return value
    all_reduce(value)

sums(loss)
broadcast(flag)
"""
    sides = [at((0,), "all_reduce", (8, "<module>"), (6, "sums")), a_side((1,), "broadcast", 9)]

    found = reason(a_program(tmp_path, text), *sides)

    assert found.signature == "hang-return"
    assert "if value is None:" in found.cause.en


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("f'cuda:{rank}' if cuda else 'cpu'", "hang-loop-left"),
        ("files[rank::2]", "hang-loop-left"),
        ("rank == 0", "hang-rank-branch"),
        ("os.environ['RANK']", "hang-rank-branch"),
    ],
)
def test_what_is_named_or_dealt_by_the_rank_is_not_its_number(given: str, name: str, tmp_path: Path) -> None:
    text = f"mine = {given}\nif mine:\n    for batch in loader:\n        all_reduce(loss)\nbarrier()\n"
    sides = [a_side((0,), "all_reduce", 4), a_side((1,), "barrier", 5)]

    assert reason(a_program(tmp_path, text), *sides).signature == name


def test_whether_there_are_several_ranks_is_no_question_of_one(tmp_path: Path) -> None:
    text = """\
args.distributed = "RANK" in os.environ and "WORLD_SIZE" in os.environ
for batch in loader:
    if args.distributed:
        all_reduce(loss)
barrier()
"""
    sides = [a_side((0,), "all_reduce", 4), a_side((1,), "barrier", 5)]

    assert reason(a_program(tmp_path, text), *sides).signature == "hang-loop"


def test_a_rank_at_the_end_while_others_wait_has_made_fewer_calls(sources: Sources) -> None:
    ended = Side(ranks=(1,), way=(), place=CodeLocation(what="_shutdown"))

    found = reason(sources, ended, a_side((0,), "backward", 14))

    assert found.signature == "hang-ended-early"
    assert found.cause.en.startswith("rank 1 is at the end of the program, and backward still holds rank 0")
    assert reason(sources, ended).signature == "hang-at-the-end"


EPOCHS = """\
def run(loader, optimizer=None):
    for batch in loader:
        if optimizer is not None:
            backward(batch)

for epoch in range(9):
    run(loader, optimizer)
    if stopper.step(loss):
        break
barrier()
"""


def test_of_epochs_and_batches_the_loop_that_a_rank_broke_off_is_told(tmp_path: Path) -> None:
    trains = at((0,), "backward", (7, "<module>"), (4, "run"))

    found = reason(a_program(tmp_path, EPOCHS), trains, a_side((1,), "barrier", 10))

    assert "rank 1 left the loop of line 6, rank 0 not" in found.cause.en
    assert found.cause.en.endswith("line 8  if stopper.step(loss):")


CONTINUES = """\
for name in names:
    all_reduce(total)
    if rank == 0:
        if args.mode == "infer":
            continue
    barrier()
"""


def test_a_way_out_for_some_ranks_is_told_by_the_if_that_asks_for_them(tmp_path: Path) -> None:
    sides = [a_side((0,), "all_reduce", 2), a_side((1,), "barrier", 6)]

    assert reason(a_program(tmp_path, CONTINUES), *sides).cause.en.endswith("by line 3  if rank == 0:")
