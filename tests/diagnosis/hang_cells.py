"""Cells whose ranks wait for each other, and sides of them, for the tests of hangs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbdist.diagnosis.hangs.deadlocks import why
from nbdist.diagnosis.known import Hint
from nbdist.diagnosis.positions import Side
from nbdist.programs.sources import CodeLocation, Sources
from nbdist.store.reports import Call, Collective, Operand, RankAnswer
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

LINES = """\
def validate(rank):
    if rank != 0:
        return
    gather(scores)

for step in range(9):
    loss = train(step)
    if loss > 9:
        continue
    if main:
        validate(rank)
    if boxes:
        all_reduce(boxes)
    backward(loss)
while not exists("model.lock"):
    sleep(1)
if dist.get_rank() == 0:
    save(model)
else:
    barrier()
main = rank == 0
all_gather(scores)
for step in range(3):
    try:
        backward(step)
    except RuntimeError:
        print("left out")
barrier()
def save_best(rank):
    if rank == 0:
        barrier()
for step in range(3):
    backward(step)
    if step == 1:
        save_best(rank)
for file in files:
    sleep(1)
    parts.append(read(file))
for attempt in range(99):
    if exists("model.lock"):
        break
    sleep(1)
if trainer.is_global_zero:
    all_gather(losses)
barrier()
"""


MORE = """\
class Meter:
    def log(self, value):
        with self.lock:
            self.flush()
    def flush(self):
        with self.lock:
            self.rows.clear()
    def write(self):
        with self.lock:
            self.file.write(1)

def train(loader):
    for batch in loader:
        try:
            backward(batch)
        except RuntimeError:
            continue

def share(rank, hard):
    if not hard:
        return None
    all_reduce(hard)

def make_groups(rank):
    if rank > 1:
        return None
    return new_group([0, 1])

train(loader)
share(rank, hard)
barrier()
if rank < 2:
    if lucky:
        all_reduce(pair)
if rank == 0:
    broadcast(model)
else:
    broadcast(model)
with cache_lock():
    barrier()
with cache_lock():
    read()
broadcast(step, src=rank)
for step in range(3):
    gather(step)
    if step == skipped:
        continue
    all_reduce(step)
"""


def a_program(folder: Path, text: str) -> Sources:
    written = WrittenRun(folder / "home", cell=text)
    return Sources.of(written.run, written.directory)


def at(
    ranks: tuple[int, ...],
    what: str,
    *way: int | tuple[int, str],
    waits: bool = True,
    had: Sequence[tuple[int, str, str]] = (),
    **place: Any,
) -> Side:
    """Return ranks in a call, by its lines: of the module, or with functions; ``had``: values by line."""
    steps = [(step, "<module>") if isinstance(step, int) else step for step in way]
    calls = tuple(Call(file=a_spec().program, line=line, function=function) for line, function in steps)
    location = CodeLocation(line=steps[-1][0], what=what, waits=waits, **place)
    return Side(ranks=ranks, way=calls, place=location, values=tuple(the_value(*value) for value in had))


def reason(sources: Sources, *sides: Side, raised: dict[int, str] | None = None) -> Hint:
    hint = why(sides, sources, raised or {})
    assert hint is not None
    return hint


def the_value(line: int, name: str, what: str) -> Operand:
    return Operand(file=a_spec().program, line=line, name=name, what=what)


def waiting(rank: int, group: str, begun: float, *members: int) -> RankAnswer:
    collective = Collective(name="all_reduce", number=1, over=False, begun=begun, members=members)
    return RankAnswer(rank=rank, collectives={group: collective})


COUNTS = """\
for batch in loader:
    step += 1
    if nan(batch):
        continue
    critic_loss(batch)
    if step % args.each == 0:
        generator_loss(batch)
while epoch < epochs:
    for batch in loader:
        backward(batch)
    epoch += 1
barrier()
"""
