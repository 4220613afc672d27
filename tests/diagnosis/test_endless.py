"""Loops over a dataset that Python does not end by its length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.hangs.endless import retrying
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.store.reports import Call, Operand
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

CELL = """\
class Points(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        {sample}

def test(points):
    for x, y in enumerate(points):
        {body}

test(Points())
barrier()
"""
DRAWN = "g = torch.Generator().manual_seed(7 + i); label = i % 2; return torch.randn(4, generator=g) + label"


@pytest.mark.parametrize(
    ("sample", "body", "kind", "name"),
    [
        pytest.param(DRAWN, "model(x)", "Points", "hang-endless", id="drawn"),
        pytest.param("return self.x[i % 8]", "model(x)", "Points", "hang-endless", id="round and round"),
        pytest.param("return self.x[i]", "model(x)", "Points", "hang-busy", id="looked up"),
        pytest.param(
            "k = i + self.at; return self.x[k]", "model(x)", "Points", "hang-busy", id="looked up later"
        ),
        pytest.param(
            "return self.load(f'{i}.png')", "model(x)", "Points", "hang-busy", id="given to another"
        ),
        pytest.param("return load('%d.png' % i)", "model(x)", "Points", "hang-busy", id="a text with it"),
        pytest.param(DRAWN, "if x > 9: break", "Points", "hang-busy", id="a way out"),
        pytest.param(DRAWN, "model(x)", "DataLoader", "hang-busy", id="of a library"),
    ],
)
def test_a_loop_that_nothing_ends_is_told(
    tmp_path: Path, sample: str, body: str, kind: str, name: str
) -> None:
    cell = CELL.replace("{sample}", sample).replace("{body}", body)
    written = WrittenRun(tmp_path / "home", cell=cell)
    program = a_spec().program
    busy = Side(
        ranks=(0,),
        way=(
            Call(file=program, line=11, function="<module>"),
            Call(file=program, line=9, function="test"),
        ),
        place=CodeLocation(line=9, what="model", waits=False),
        values=(Operand(file=program, line=8, name="points", what=kind),),
    )
    waits = Side(
        ranks=(1,),
        way=(Call(file=program, line=12, function="<module>"),),
        place=CodeLocation(line=12, what="barrier", waits=True),
    )

    found = why((busy, waits), Sources.of(written.run, written.directory), {})

    assert found is not None
    assert found.signature == name


RETRIES = """\
class Lines(Dataset):
    def __getitem__(self, i):
        while True:
            try:
                return self.load(i)
            except Exception:
                i = random.randrange(len(self))
for x in loader:
    step(x)
barrier()
"""


@pytest.mark.parametrize(
    ("what", "instead", "name"),
    [
        pytest.param("", "", "hang-retrying", id="for ever"),
        pytest.param("i = random", "log.warning(i); i = random", "hang-loader-in-thread", id="tells of it"),
        pytest.param("i = random.randrange(len(self))", "raise", "hang-loader-in-thread", id="raises"),
        pytest.param("Exception", "queue.Empty", "hang-loader-in-thread", id="waits"),
        pytest.param("while True", "for _ in range(9)", "hang-loader-in-thread", id="nine times"),
        pytest.param(
            "while True:", "while True:\n          if i > 9: break", "hang-loader-in-thread", id="ends"
        ),
    ],
)
def test_a_loop_that_tries_again_after_every_error_is_told(
    tmp_path: Path, what: str, instead: str, name: str
) -> None:
    cell = RETRIES.replace(what, instead) if what else RETRIES
    written = WrittenRun(tmp_path / "home", cell=cell)
    program, more = a_spec().program, cell.count("\n") - RETRIES.count("\n")
    reads = Side(
        ranks=(0,),
        way=(Call(file=program, line=8 + more, function="<module>"),),
        place=CodeLocation(line=8 + more, what="DataLoader", loads=True),
        beside=((Call(file=program, line=5 + more, function="__getitem__"),),),
    )
    waits = Side(
        ranks=(1,),
        way=(Call(file=program, line=10 + more, function="<module>"),),
        place=CodeLocation(line=10 + more, what="barrier", waits=True),
    )

    found = why((reads, waits), Sources.of(written.run, written.directory), {})

    assert found is not None
    assert found.signature == name


def test_a_worker_that_computes_is_taken_to_be_in_the_loop_of_its_dataset(tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell=RETRIES)
    side = Side(
        ranks=(0,),
        way=(Call(file=a_spec().program, line=8, function="<module>"),),
        place=CodeLocation(line=8, what="DataLoader", loads=True),
    )
    sources = Sources.of(written.run, written.directory)
    elsewhere = replace(side, workers=((Call(file=a_spec().program, line=9, function="step"),),))

    assert retrying(elsewhere, sources) is None
    found = retrying(side, sources)
    assert found is not None
    assert found.cause.en.startswith("while True:  (line 3) holds rank 0: it tries again after any error")
