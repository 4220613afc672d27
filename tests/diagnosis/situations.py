"""Situations in which ranks wait for each other, and the hint for each.

Above a program stand its situations: a title in words, then the ranks, each with its call and the lines that
lead there (``held``: it waits for no other rank; ``6.step=9``: a value in a line), the row of the table, then
words of the cause, with ``$`` for its end, and of the fix.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbdist.diagnosis.positions import Side
from tests.diagnosis.hang_cells import COUNTS, LINES, MORE, at


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Ranks in a program, and their hint."""

    title: str
    program: str
    sides: tuple[Side, ...]
    row: str
    cause: str
    fix: str


def situations(*texts: str) -> Iterator[Situation]:
    """Parse the situations above each of these programs."""
    for text in texts:
        lines = text.splitlines()
        head = [line.removeprefix("#:") for line in lines if line.startswith("#:")]
        program = "\n".join(lines[len(head) :]) + "\n"
        for part in re.findall(r"^ \S.*(?:\n   .*)*", "\n".join(head), re.MULTILINE):
            title, ranks, *words = (line.strip() for line in part.splitlines())
            sides, _, row = ranks.partition(" -> ")
            yield Situation(
                title=title,
                program=program,
                sides=tuple(_side(side.split(), program) for side in sides.split(" | ")),
                row=row,
                cause=next((line for line in words if not line.startswith("fix: ")), ""),
                fix=next((line[len("fix: ") :] for line in words if line.startswith("fix: ")), ""),
            )


def _side(words: list[str], program: str) -> Side:
    """Parse ``0,1 all_reduce 8 3 6.step=9``."""
    ranks, call, *rest = words
    way = [(int(word), _function(int(word), program)) for word in rest if word.isdecimal()]
    had = [match.groups() for word in rest if (match := re.fullmatch(r"(\d+)\.([\w.]+)=(.*)", word))]
    within = next((word.removeprefix("within=") for word in rest if word.startswith("within=")), "")
    flags: dict[str, Any] = {flag: True for flag in ("built_in", "on_network") if flag in rest}
    values = [(int(line), name, what) for line, name, what in had]
    numbers = tuple(map(int, ranks.split(",")))
    return at(numbers, call, *way, waits="held" not in rest, had=values, within=within, **flags)


def _function(line: int, program: str) -> str:
    """Return the name of the innermost function around a line."""
    functions = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.FunctionDef)]
    inside = [node.name for node in functions if node.lineno <= line <= (node.end_lineno or line)]
    return inside[-1] if inside else "<module>"


PARTED = (
    """\
#: the else of a branch for one rank
#:   1 barrier 20 | 0 all_gather 22 -> hang-rank-branch
#:   rank 1 alone went into  else of if dist.get_rank() == 0:  (line 17), and called barrier there
#: a name that stands for the rank
#:   1 gather 11 4 | 0 backward 14 -> hang-rank-branch
#:   rank 1 alone went into  if main:  (line 10), and called gather there
#: a branch that the data decides
#:   1 all_reduce 13 | 0 backward 14 -> hang-branch
#:   rank 1 went into  if boxes:  (line 12), and rank 0 did not
#: a branch for one rank in a function that both called
#:   1 barrier 35 31 | 0 backward 33 -> hang-rank-branch
#:   rank 1 alone went into  if rank == 0:  (line 30), and called barrier there
#: a trainer's word for the first rank
#:   1 all_gather 44 | 0 barrier 45 -> hang-rank-branch
#:   rank 1 alone went into  if trainer.is_global_zero:  (line 43), and called all_gather there
#: one has left the loop
#:   1 backward 14 | 0 all_gather 22 -> hang-loop-left
#:   line 6, rank 1 not: fewer steps, or one left out or added at line 8  if loss > 9:, line 12  if boxes:$
#: one has left a step out
#:   1 backward 25 | 0 barrier 28 -> hang-loop-caught
#:   or one cut short by  except RuntimeError:  (line 26)
#: several ranks did not go into it
#:   0 gather 11 4 | 1,2 save 12 -> hang-rank-branch
#:   rank 0 alone went into  if main:
#: a rank behind the branch that another waits in never comes there
#:   0 save 18 | 1 time.sleep 22 held -> hang-rank-branch
#:   rank 0 alone went into  if dist.get_rank() == 0:  (line 17)
#: a rank before that branch may still come there
#:   0 save 18 | 1 train 7 held -> hang-busy
#:   rank 1
"""
    + LINES,
    """\
#: of two loops the one over data was left
#:   0 backward 7 3 | 1 barrier 8 -> hang-loop
#:   rank 1 left the loop of line 2, rank 0 did not: fewer rounds of  for
def epoch():
    for batch in loader:
        backward(batch)
    return 0

for _ in range(3):
    epoch()
barrier()
""",
    """\
#: not the loop that counts itself
#:   0 backward 10 | 1 barrier 12 -> hang-loop
#:   rank 1 left the loop of line 9
#: not an if that asks for a count of the loop
#:   0 backward 7 6.step=9 6.args.each=2 | 1 backward 5 6.step=10 6.args.each=2 -> hang-round
#:   , by line 3  if nan(batch):$
"""
    + COUNTS,
    """\
#: a step that is tried again is cut short by what catches
#:   1 all_reduce 13 4 10 | 0 barrier 14 -> hang-loop-caught
#:   rank 0 left the loop of line 12, rank 1 not: fewer steps, or one cut short by  except OSError:  (line 5)
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
""",
    """\
#: a return before the call of those that left a loop
#:   0 barrier 10 4 | 1 backward 9 -> hang-loop-left
#:   one left out or added at line 2  if value >= best:$
def update(value):
    if value >= best:
        return False
    barrier()
    return True

for epoch in range(8):
    for batch in batches:
        backward(batch)
    update(validate())
""",
    """\
#: an if around the call of those that left a loop
#:   0 barrier 10 2 | 1 backward 6 -> hang-loop-left
#:   one left out or added at line 9  if accuracy > best:$
def save(model):
    barrier()

for epoch in range(6):
    for batch in loader:
        backward(batch)
    for name in splits:
        accuracy = evaluate(name)
        if accuracy > best:
            save(model)
""",
    """\
#: values that an if has changed since do not say that it was alike
#:   0 barrier 10 2 9.accuracy=0.9 9.best=0.9 | 1 backward 6 9.accuracy=0.9 9.best=0.9 -> hang-loop-left
#:   one left out or added at line 9  if accuracy > best:$
def save(model):
    barrier()

for epoch in range(6):
    for batch in loader:
        backward(batch)
    for name in splits:
        accuracy = evaluate(name)
        if accuracy > best:
            best = accuracy; save(model)
""",
    """\
#: a value of a call that was given the rank is none of the ranks
#:   0 barrier 11 3 6 | 1 backward 12 -> hang-rank-branch
#:   rank 0 alone went into  if dist.get_rank() == 0:  (line 2)
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
""",
    """\
#: a loop in a function that one rank has come out of
#:   0 backward 29 15 | 1 barrier 31 -> hang-loop-caught
#:   left the loop of line 13, rank 0 not: fewer steps, or one cut short by  except RuntimeError:  (line 16)
#: a return that the data decides
#:   0 all_reduce 30 22 | 1 barrier 31 -> hang-return
#:   it may have returned at  if not hard:  (line 20)
#: not an if that the other rank goes into by its number
#:   0 all_reduce 34 | 1 gather 45 32.rank=1 -> hang-branch
#:   rank 0 went into  if lucky:  (line 33)
#: the values of a condition that are unlike
#:   0 all_reduce 34 33.lucky=True | 1 gather 45 32.rank=1 33.lucky=False -> hang-branch
#:   : lucky is True on rank 0, False on rank 1
#: the values of a condition that are alike
#:   0 all_reduce 34 33.lucky=True | 1 gather 45 32.rank=1 33.lucky=True -> hang-apart
#: an if whose other part calls the same
#:   0 broadcast 36 | 1 gather 45 -> hang-apart
#: ranks that came round without a call
#:   0 all_reduce 48 | 1 gather 45 -> hang-round
#:   rank 1 came round to gather without it, by line 46  if step == skipped:
"""
    + MORE,
    """\
#: those who came round may have left a call out in a function
#:   1 barrier 8 4 | 0 backward 7 -> hang-round
#:   line 2  if time.time() - saver.last < 60:$
def maybe_save(saver):
    if time.time() - saver.last < 60:
        return
    barrier()

for step in range(400):
    backward(step)
    maybe_save(saver)
""",
    """\
#: an error may have let a rank come round
#:   0 barrier 15 4 | 1 backward 13 -> hang-caught
#:   line 5  except ValueError:
#: an error may have taken a rank past the call, or a return
#:   0 all_reduce 18 10 | 1 all_gather_object 21 -> hang-caught
#:   line 8  if loss is None:, line 19  except RuntimeError:
#: an interrupt is for all ranks
#:   0 all_reduce 23 10 | 1 barrier 26 -> hang-return
#:   if loss is None:  (line 8)
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
""",
    """\
#: what a loop calls may have caught what ended it
#:   0 backward 8 | 1 barrier 9 -> hang-loop-caught
#:   one cut short by  except Exception:  (line 4)
def fetch(batches):
    try:
        return next(batches)
    except Exception:
        return None

while (batch := fetch(batches)) is not None:
    backward(batch)
barrier()
""",
    """\
#: not a limit of rounds that is alike
#:   0 backward 6 2.step=41 2.args.most=500 | 1 barrier 7 2.step=40 2.args.most=500 -> hang-loop-left
#:   added at line 4  if stop:$
#: a limit of rounds that is unlike
#:   0 backward 6 2.step=41 2.args.most=500 | 1 barrier 7 2.step=40 2.args.most=40 -> hang-loop-left
#:   added at line 2  if step >= args.most:, line 4  if stop:$
for step, batch in enumerate(loader):
    if step >= args.most:
        break
    if stop:
        break
    backward(batch)
barrier()
""",
    """\
#: buffers of a model are as many on each rank
#:   0 broadcast 3 | 1 barrier 4 -> hang-loop
#:   rank 1 left the loop of line 1
for step in range(3):
    for one in model.buffers():
        broadcast(one)
barrier()
""",
    """\
#: a way out for some ranks is told by the if that asks for them
#:   0 all_reduce 2 | 1 barrier 6 -> hang-round
#:   by line 3  if rank == 0:$
for name in names:
    all_reduce(total)
    if rank == 0:
        if args.mode == "infer":
            continue
    barrier()
""",
    """\
#: the same calls in another order
#:   0,3 all_reduce 16 10 3 | 1,2 all_reduce 16 13 6 -> hang-order
#:   line 9  if (row + column) % 2:
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
""",
    """\
#: ranks that wait for the first have not called what that is in
#:   1 barrier 9 5 | 0 forward 9 7 2 -> hang-rank-return
#:   rank 0 alone came past  if rank != 0:  (line 4) and called forward, rank 1 did not$
#:   fix: model.module
def run(model):
    return model(x)
def validate(rank, model):
    if rank != 0:
        barrier()
        return
    run(model)
    barrier()
validate(rank, model)
""",
    """\
#: whether there are several ranks is no question of one
#:   0 all_reduce 4 | 1 barrier 5 -> hang-loop
args.distributed = "RANK" in os.environ and "WORLD_SIZE" in os.environ
for batch in loader:
    if args.distributed:
        all_reduce(loss)
barrier()
""",
    """\
#: files[rank::2]
#:   0 all_reduce 4 | 1 barrier 5 -> hang-loop-left
mine = files[rank::2]
if mine:
    for batch in loader:
        all_reduce(loss)
barrier()
""",
    """\
#: rank == 0
#:   0 all_reduce 4 | 1 barrier 5 -> hang-rank-branch
mine = rank == 0
if mine:
    for batch in loader:
        all_reduce(loss)
barrier()
""",
    """\
#: a loop without end is left by what ends it
#:   0 backward 2 | 1 barrier 3 -> hang-while
#:   fix: all_reduce what ends the loop
while True:
    backward(step())
barrier()
""",
)
"""Ranks that all wait: where their ways parted."""

GROUPED = (
    """\
#: a group that a rank did not make
#:   0,1 new_group 27 | 2 all_reduce 34 -> hang-group-left-out
#:   if rank > 1:  (line 25) keeps ranks from the new_group of line 27
#: another root on each
#:   0,1 broadcast 43 -> hang-root
#:   src=rank
"""
    + MORE,
    """\
#: of ranks that all make a group some may have made one more
#:   0,1,2,3 new_group 6 4 -> hang-group-left-out
#:   if rank in leaders:  (line 2)
def make(rank):
    if rank in leaders:
        heads = new_group(leaders)
    return new_group(mates[rank])

make(rank)
""",
    """\
#: ranks that go on before a group that is not theirs leave it out
#:   0,1 new_group 4 -> hang-group-left-out
#:   if rank not in members:  (line 2) keeps ranks from the new_group of line 4
for name, members in towers.items():
    if rank not in members:
        continue
    new_group(members)
""",
    """\
#: a group of each rank's own
#:   0,1 new_group 4 -> hang-groups



new_group([dist.get_rank()])
""",
    """\
#: the if for some ranks in which a group is made at first use
#:   0 new_group 8 2 | 1 backward 6 -> hang-rank-branch
#:   rank 0 alone went into  if rank == 0:  (line 7), and called new_group there
#:   fix: call it on every rank, outside of that if$
def publish(result):
    group = new_group(backend="gloo")
    broadcast_object_list(result, group=group)

for epoch in range(3):
    backward(epoch)
    if rank == 0:
        publish(evaluate())
""",
    """\
#: a rank on its way to a group
#:   0 new_group 2 | 1 ? 1 held on_network -> hang-network
#: a rank behind a group
#:   0 new_group 2 | 1 barrier 3 -> hang-groups
rows = get(url)
group = new_group([0, 1])
barrier()
""",
    """\
#: on one, too
#:   0 broadcast 1 | 1 barrier 2 -> hang-root
#: a parameter that is the same on all ranks is no rank's own root
#:   1 broadcast 1 1.rank=0 | 0 barrier 2 -> hang-apart
broadcast(parts, src=rank)
barrier()
""",
    """\
#: a loop over ranks
#:   0 broadcast 2 | 1 barrier 3 -> hang-loop
for rank in range(2):
    broadcast(parts[rank], src=rank)
barrier()
""",
    """\
#: whether a rank is in a group is its own question: pair_rank == -1
#:   0 all_reduce 5 4 | 1 barrier 6 -> hang-rank-return
#:   if pair_rank == -1:
def sums(value):
    if pair_rank == -1:
        return
    all_reduce(value)
sums(loss)
barrier()
""",
)
"""Ranks that wait in process groups, and collectives with a root."""

HELD = (
    """\
#: a loop that counts to its end is slow
#:   0 model 2 held | 1 barrier 4 -> hang-busy
while n < most:
    ids.append(model(ids))
    n += 1
barrier()
""",
    """\
#: a loop that asks
#:   0 model 2 held | 1 barrier 4 -> hang-goes-round
while ids[-1] != end:
    ids.append(model(ids))
    n += 1
barrier()
""",
    """\
#: the network
#:   0 requests.get 7 held on_network | 1 all_gather 22 -> hang-network
#:   rank 0 at line 7: requests.get waits for the other side
#: ranks that all go round a loop
#:   0,1 sleep 16 held -> hang-goes-round
#:   ranks 0, 1 at line 16: the loop of line 15,  while not exists('model.lock'): , has not ended
"""
    + LINES,
    """\
#: a return within a file that is opened
#:   0 barrier 8 5 | 1 all_reduce 9 -> hang-return
#:   it may have returned at  if exists(root):  (line 2)
def index(root):
    if exists(root):
        with open(root) as file:
            return load(file)
    barrier()
    return index(root)

rows = index(root)
all_reduce(rows)
""",
    """\
#: a pool
#:   1 pool.map 1 held within=pool.py | 0 barrier 2 -> hang-inside
#:   pool.map
#: a process
#:   1 p.wait 1 held within=subprocess.py | 0 barrier 2 -> hang-join
#:   p.wait
#: asyncio
#:   1 asyncio.run 1 held within=runners.py | 0 barrier 2 -> hang-await
#:   asyncio.run
#: a queue
#:   1 batches.get 1 held within=queue.py | 0 barrier 2 -> hang-inside
#:   batches.get
#: a store is known by its kind: PrefixStore
#:   1 shared.multi_get 1 held built_in 1.shared=PrefixStore | 0 barrier 2 -> hang-store
#: a store is known by its kind: dict
#:   1 shared.multi_get 1 held built_in 1.shared=dict | 0 barrier 2 -> hang-busy
""",
    """\
#: a key of the store as it is asked for and set
#:   1 store.get 8 6 held built_in | 0 all_reduce 9 -> hang-store
#:   line 6 asks for  f'epoch-{epoch}' , line 2 sets  f'epoch-{epoch:03}'
def publish(store, epoch):
    store.set(f"epoch-{epoch:03}", path)

def fetch(store, epoch):
    key = f"epoch-{epoch}"
    return store.get(key)

fetch(store, 0)
all_reduce(loss)
""",
    """\
#: f"model-{os.getpid()}"
#:   1 store.get 3 held built_in | 0 all_reduce 4 -> hang-store
#:   (line 2 makes names that differ by rank:  key =
begun = time.time()
key = f"model-{os.getpid()}"
store.get(key)
all_reduce(loss)
""",
    """\
#: a name of a condition that holds on all ranks
#:   0 all_reduce 4 2.distributed=True | 1 barrier 5 2.distributed=True -> hang-loop
distributed = rank >= 0
if distributed:
    for batch in loader:
        all_reduce(loss)
barrier()
""",
)
"""A rank that others wait for, and what holds it."""

EXCHANGING = (
    """\
#: receive
#:   0 recv 14 | 1 recv 14 -> hang-receive
#: both send
#:   0 send 14 | 1 send 14 -> hang-send
#: it is not sent
#:   0 recv 14 | 1 barrier 14 -> hang-half
#: they do not fit
#:   0 send 14 | 1 recv 14 -> hang-unmet
"""
    + LINES,
    """\
#: a return before a collective may have left it out of one that receives
#:   0 all_gather 6 4 | 1 recv 5 -> hang-return
#:   it may have returned at  if not values:  (line 2)
def collect(values):
    if not values:
        return
    all_gather(values)
recv(x)
collect(values)
""",
    """\
#: a rank on its way to the other half: send
#:   0 recv 2 | 1 source.get 3 held -> hang-inside
if rank == 0:
    recv(data, 1)
item = source.get()
if rank == 1:
    send(item, 0)
barrier()
""",
    """\
#: an error took ranks past the other half of a call
#:   1 barrier 11 8 3 | 0 DDP 14 -> hang-caught
#:   line 12  except OSError:
def main_first():
    if get_rank() != 0:
        barrier()
    yield
    if get_rank() == 0:
        barrier()
def load():
    with main_first():
        write(cache)
try:
    load()
except OSError:
    print("no cache")
model = DDP(net)
""",
    """\
#: the same condition once more is no other half
#:   1 barrier 11 8 3 | 0 DDP 14 -> hang-rank-branch
def main_first():
    if get_rank() != 0:
        barrier()
    yield
    if get_rank() != 0:
        barrier()
def load():
    with main_first():
        write(cache)
try:
    load()
except OSError:
    print("no cache")
model = DDP(net)
""",
    """\
#: a call of which the others make the other half is not made alone
#:   1 barrier 10 3 | 0 all_gather 11 -> hang-apart
def load(rank):
    if rank > 0:
        barrier()
    if cached(data):
        return data
    if rank > 0:
        return read(data)
    if rank == 0:
        barrier()
load(rank)
all_gather(data)
""",
)
"""Messages, and calls of which each rank makes a half."""
