"""Ranks that ended while others wait: in a call of which these have made one more, or in a loop of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.alone import ways_past
from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.hangs.leaving import why_left
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.store.reports import Call
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

HELPER = """\
def load(evaluate):
    if rank != 0:
        dist.barrier()
    x = read()
    if rank == 0:
        dist.barrier()
    return x

train(load(False))
if rank == 0:
    {call}
dist.barrier()
"""


def a_program(folder: Path, text: str) -> Sources:
    written = WrittenRun(folder / "home", cell=text)
    return Sources.of(written.run, written.directory)


def a_side(ranks: tuple[int, ...], what: str, *way: tuple[int, str], waits: bool = True) -> Side:
    calls = tuple(Call(file=a_spec().program, line=line, function=function) for line, function in way)
    return Side(ranks=ranks, way=calls, place=CodeLocation(line=way[-1][0], what=what, waits=waits))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param("score(load(True))", "left-one-more", id="a function with a barrier"),
        pytest.param("trainer.save_checkpoint(path)", "left-one-more", id="a trainer's own barrier"),
        pytest.param("dist.all_reduce(x)", "left-one-more", id="a collective"),
        pytest.param("torch.save(model, path)", "left-before-call", id="what calls no other rank"),
        pytest.param("df.groupby('a').reduce(x)", "left-before-call", id="another library's"),
        pytest.param("sys.exit(0)", "left-before-call", id="an end"),
        pytest.param("dist.all_reduce(x, group=few)", "left-before-call", id="in a group"),
        pytest.param(
            "dist.broadcast(x, 0)\nif rank > 0: dist.broadcast(y, 0)",
            "left-before-call",
            id="what the others call, too",
        ),
        pytest.param(
            "dist.broadcast(x, 0)\nelse:\n    receive()",
            "left-before-call",
            id="what the others do instead",
        ),
    ],
)
def test_a_rank_that_called_one_more_waits_in_the_last_call(tmp_path: Path, call: str, name: str) -> None:
    sources = a_program(tmp_path, HELPER.replace("{call}", call))

    last = sources.text(a_spec().program).count("\n")

    found = why_left(a_side((0,), "barrier", (last, "<module>")), (1,), a_spec().program, sources)

    assert found.signature == name
    if name == "left-one-more":
        assert "rank 0 alone went into  if rank == 0:  (line 10)" in found.cause.en
    else:
        assert "it left before that call, or had called one less before" in found.cause.en


def test_the_if_whose_other_half_is_in_the_function_is_not_the_one(tmp_path: Path) -> None:
    sources = a_program(tmp_path, HELPER.replace("{call}", "score(load(True))"))
    late = a_side((0,), "barrier", (11, "<module>"), (6, "load"))

    found = why_left(late, (1,), a_spec().program, sources)

    assert found.signature == "left-alone"
    assert "if rank == 0:  (line 10)" in found.cause.en


STOPPER = """\
class Epochs:
    def __iter__(self):
        return self
    def __next__(self):
        if self.bad >= self.patience:
            raise StopIteration
        self.at += 1
        return self.at
    def {update}(self, loss):
        self.bad += 1
epochs = Epochs()
for epoch in {over}:
    backward(epoch)
"""


@pytest.mark.parametrize(
    ("update", "over", "ways"),
    [
        pytest.param("update", "epochs", [5], id="another method sets it"),
        pytest.param("update", "tqdm(epochs)", [5], id="within another"),
        pytest.param("__init__", "epochs", [], id="none does"),
        pytest.param("update", "range(3)", [], id="another loop"),
    ],
)
def test_what_ends_a_loop_over_an_iterator_of_the_program_is_named(
    tmp_path: Path, update: str, over: str, ways: list[int]
) -> None:
    sources = a_program(tmp_path, STOPPER.replace("{update}", update).replace("{over}", over))

    found = ways_past(a_side((1,), "backward", (13, "<module>")), sources)

    assert [way.lineno for way in found] == ways


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param("read() if rank == 0 else []", "hang-loop-of-rank", id="by the rank"),
        pytest.param("read() if rank < n else read()[:2]", "hang-loop-of-rank", id="by its share"),
        pytest.param("read() if full else []", "hang-loop", id="by something else"),
    ],
)
def test_what_a_loop_goes_over_by_the_rank_is_named(tmp_path: Path, given: str, name: str) -> None:
    sources = a_program(
        tmp_path, f"batches = {given}\nfor i, x in enumerate(batches):\n    broadcast(x)\nbarrier()\n"
    )

    found = why(
        [a_side((0,), "broadcast", (3, "<module>")), a_side((1,), "barrier", (4, "<module>"))], sources, {}
    )

    assert found is not None
    assert found.signature == name
