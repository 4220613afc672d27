"""Hints for ranks that never meet, from their lines in a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.hangs.leaving import called_alone, entered_alone
from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import CodeLocation, place_of
from nbdist.store.reports import Call
from tests.diagnosis.hang_cells import LINES, a_program, at, reason
from tests.diagnosis.situations import EXCHANGING, GROUPED, HELD, PARTED, Situation, situations
from tests.fakes.runs import a_spec

SITE = "/v/lib/python3.11/site-packages"


SITUATIONS = situations(*PARTED, *GROUPED, *HELD, *EXCHANGING)


@pytest.mark.parametrize(
    "situation", [pytest.param(situation, id=situation.title) for situation in SITUATIONS]
)
def test_what_holds_ranks_or_parted_them_is_told(situation: Situation, tmp_path: Path) -> None:
    hint = reason(a_program(tmp_path, situation.program), *situation.sides)

    assert hint.signature == situation.row
    assert situation.cause in f"{hint.cause.en}$"
    assert situation.fix in f"{hint.fix.en}$"


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
    tmp_path: Path, what: str, line: int, name: str
) -> None:
    held = at((1,), what, line, waits=False)

    hint = reason(a_program(tmp_path, LINES), held, at((0, 2), "all_gather", 22))

    assert hint.signature == name
    assert "rank 1" in hint.cause.en


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
    saver = at((0,), "gather", 13)

    hint = reason(sources, saver, at((1,), "backward", 11))

    assert (hint.signature == "hang-rank-branch") is alone
    assert (entered_alone(saver, sources) is not None) is alone


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

    hint = reason(a_program(tmp_path, text), at((0,), "all_reduce", 8, (6, "sums")), at((1,), "broadcast", 9))

    assert hint.signature == "hang-return"
    assert "if value is None:" in hint.cause.en


ROUNDS = """\
def save(step):
    barrier()

for step in range(12):
    if step % 4 == 3:
        save(step)
    broadcast(step)
"""


def test_an_if_that_asks_for_the_round_alone_has_not_parted_them(tmp_path: Path) -> None:
    inside = at((0,), "barrier", 6, (2, "save"), had=[(5, "step", "3")])

    hint = reason(a_program(tmp_path, ROUNDS), inside, at((1,), "broadcast", 7, had=[(5, "step", "4")]))

    assert hint.signature != "hang-branch"


LEAVES = """\
def fit(loader):
    for batch in loader:
        if done:
            {leaves}
        if hard:
            continue
        backward(batch)
        report(batch)
        if late:
            {leaves}
{call}
"""


@pytest.mark.parametrize(
    ("leaves", "call", "named"),
    [
        pytest.param("return", "fit(loader)", False, id="a return that ends it all"),
        pytest.param("break", "fit(loader)", False, id="a break that ends it all"),
        pytest.param("continue", "fit(loader)", True, id="the next round"),
        pytest.param("return", "for _ in range(3): fit(loader)", True, id="the next epoch"),
    ],
)
def test_ranks_that_came_round_have_not_left_the_loop(
    leaves: str, call: str, named: bool, tmp_path: Path
) -> None:
    sources = a_program(tmp_path, LEAVES.format(leaves=leaves, call=call))

    hint = reason(sources, at((0,), "gather", 11, (8, "fit")), at((1,), "backward", 11, (7, "fit")))

    assert "line 5  if hard:" in hint.cause.en
    assert ("line 3  if done:" in hint.cause.en) is named


def test_conditions_of_a_module_are_told_with_its_name(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "for step in range(9):\n    backward(step)\n    report(step)\n")
    module = tmp_path / "monitor.py"
    module.write_text("def report(step):\n    if not values:\n        return\n    all_gather(values)\n")
    program = at((0,), "all_gather", 3)
    way = (*program.way, Call(file=str(module), line=4, function="report"))
    inside = replace(program, way=way, place=replace(program.place, line=4, file="monitor.py"))

    hint = reason(sources, inside, at((1,), "backward", 2))

    assert "called all_gather (line monitor.py:4)" in hint.cause.en
    assert "monitor.py  if not values:" in hint.cause.en


def test_a_rank_at_the_end_while_others_wait_has_made_fewer_calls(tmp_path: Path) -> None:
    sources, ended = (
        a_program(tmp_path, LINES),
        Side(ranks=(1,), way=(), place=CodeLocation(what="_shutdown")),
    )

    hint = reason(sources, ended, at((0,), "backward", 14))

    assert hint.signature == "hang-ended-early"
    assert hint.cause.en.startswith("rank 1 reached the end of the program, but backward still blocks rank 0")
    assert reason(sources, ended).signature == "hang-at-the-end"


def test_ranks_in_one_collective_have_no_reason_to_wait(tmp_path: Path) -> None:
    assert why([at((0, 1), "all_gather", 22)], a_program(tmp_path, LINES), {}) is None


def test_ranks_that_have_sent_are_not_told_that_none_sends(tmp_path: Path) -> None:
    sources = a_program(tmp_path, "isend(x, 1)\nrecv(y, 1)\nbatch_isend_irecv(ops)\n")

    assert why([at((0, 1), "recv", 2)], sources, {}) is None
    assert why([at((0, 1), "batch_isend_irecv", 3)], sources, {}) is None


def test_where_a_rank_waits_for_something_else_a_message_may_still_come(tmp_path: Path) -> None:
    sides = [at((0,), "send", 14), at((1,), "recv", 14), at((2,), "barrier", 20)]

    assert why(sides, a_program(tmp_path, LINES), {}) is None


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

    lone = called_alone(at((0, 1), "backward", 5), sources)

    assert (lone and (lone[0].lineno, lone[1])) == ((6, "all_reduce") if known else None)


@pytest.mark.parametrize(
    ("line", "library", "what", "through"),
    [
        pytest.param(
            "print(float(roc.compute()))",
            [
                ("torchmetrics/metric.py", "wrapped_func"),
                ("torch/distributed/distributed_c10d.py", "barrier"),
            ],
            "barrier",
            "roc.compute",
            id="a call that a decorator has renamed, as it is written",
        ),
        pytest.param(
            "log(trainer.metrics)",
            [("torchmetrics/metric.py", "metrics"), ("torch/distributed/distributed_c10d.py", "barrier")],
            "barrier",
            "metrics",
            id="a property",
        ),
        pytest.param(
            "dcp.save(state)",
            [
                ("torch/distributed/checkpoint/utils.py", "inner_func"),
                ("torch/distributed/checkpoint/state_dict_saver.py", "save"),
            ],
            "save",
            "",
            id="a save in a distributed checkpoint",
        ),
        pytest.param(
            "norm = get_total_norm([p.grad for p in model.parameters()])",
            [
                ("torch/nn/m.py", "_no_grad_wrapper"),
                ("torch/nn/m.py", "_get_total_norm"),
                ("torch/distributed/tensor/_dispatch.py", "_dispatch_slow_path"),
            ],
            "get_total_norm",
            "",
            id="a library's own function, as the line has it",
        ),
        pytest.param(
            "loss = entropy(model(x), randn(3))",
            [
                ("torch/nn/m.py", "_wrapped_call_impl"),
                ("torch/nn/m.py", "forward"),
                ("torch/distributed/tensor/_dispatch.py", "_pre_forward"),
            ],
            "forward",
            "",
            id="not a library's own business",
        ),
        pytest.param(
            "shard = np.load(path)",
            [("numpy/lib/_npyio_impl.py", "__del__")],
            "np.load",
            "",
            id="not what is freed while a line calls",
        ),
    ],
)
def test_a_call_within_a_library_has_a_name_that_a_program_knows(
    tmp_path: Path, line: str, library: list[tuple[str, str]], what: str, through: str
) -> None:
    own = Call(file=a_spec().program, line=1, function="<module>")
    calls = [own, *(Call(file=f"{SITE}/{file}", line=7, function=function) for file, function in library)]

    place = place_of(calls[::-1], a_program(tmp_path, f"{line}\n"))

    assert (place.what, place.through) == (what, through)


def test_a_collective_in_a_library_is_told_with_the_call_of_the_program() -> None:
    assert at((0,), "barrier", 20, through="metrics.compute").call == "barrier in metrics.compute"
