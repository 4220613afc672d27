"""Where the batches of a loop come from, of which the ranks have other numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.batches import shared_out, sized_by_rank
from nbdist.diagnosis.places import Sources
from nbdist.store.reports import Call
from nbdist.text import Both
from tests.diagnosis.hang_cells import a_program, at, reason
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

TRAINS = """\
def fit(rank):
    set_seed(7 + rank)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    for epoch in range(epochs):
        for x in loader:
            backward(x)
fit(rank)
"""
GIVEN = """\
def train(loader, rank):
    set_seed(7 + rank)
    for epoch in range(epochs):
        for x in tqdm(loader):
            with autocast():
                pass
            backward(x)
train(DataLoader(data, 8, batch_sampler=DistributedBatchSampler(data)), rank)
"""


def shared(cell: str, tmp_path: Path) -> str:
    written = WrittenRun(tmp_path / "home", cell=cell)
    way = tuple(
        Call(file=a_spec().program, line=at, function=name) for at, name in ((8, "<module>"), (7, "fit"))
    )
    if "def train" in cell:
        way = (way[0], Call(file=a_spec().program, line=7, function="train"))
    found = shared_out(way, Sources.of(written.run, written.directory))
    if found is None:
        return ""
    assert isinstance(found["why"], Both)
    return f"{found['data']}, {found['sampler']} ({found['at']}){found['why'].en}"


OF_SEVERAL = TRAINS.replace("shuffle=True)", "shuffle=True) if world > 1 else None")


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(TRAINS, id="made here"),
        pytest.param(OF_SEVERAL, id="of several ranks"),
        pytest.param(GIVEN, id="given"),
    ],
)
def test_batches_that_a_sampler_shares_out_are_of_other_data(cell: str, tmp_path: Path) -> None:
    said = shared(cell, tmp_path)

    assert said.startswith("data, Distributed")
    assert said.endswith(", and each rank draws other random numbers (line 2  set_seed(7 + rank))")


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        pytest.param("DistributedSampler", "RandomSampler", id="another sampler"),
        pytest.param("batch_size=8", "batch_size=sizes[rank]", id="another batch size"),
        pytest.param("range(epochs)", "range(begin, epochs)", id="fewer epochs"),
        pytest.param("in loader", "in islice(loader, 3)", id="a part of it"),
        pytest.param("            backward(x)", "            if x: backward(x)", id="only some batches"),
        pytest.param("backward(x)", "backward(x); atexit.register(lambda: exit())", id="it exits"),
        pytest.param(
            "            backward(x)", "            if x: break\n            step(x)", id="it is left"
        ),
    ],
)
def test_batches_may_be_fewer_for_another_reason(what: str, instead: str, tmp_path: Path) -> None:
    assert shared(TRAINS, tmp_path)
    assert not shared(TRAINS.replace(what, instead), tmp_path / "other")


OF_BATCHES = TRAINS.replace(
    "DistributedSampler(data, shuffle=True)", "DistributedBatchSampler(data, size)"
).replace("set_seed(7 + rank)", "size = 8")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param(TRAINS.replace("=8", "=sizes[rank]"), "4  sizes[rank]", id="an argument"),
        pytest.param(
            OF_BATCHES.replace("size = 8", "size = 8 if rank == 0 else 4"),
            "2  size = 8 if rank == 0 else 4",
            id="a name",
        ),
        pytest.param(
            OF_BATCHES.replace("size = 8", "size = 8 if rank else 4"),
            "2  size = 8 if rank else 4",
            id="as is",
        ),
        pytest.param(
            TRAINS.replace("    sampler", "    if get_rank() == 0: size = 4\n    sampler", 1)
            .replace("=8", "=size")
            .replace("    set_seed(7 + rank)\n", ""),
            "2  size = 4",
            id="in an if",
        ),
        pytest.param(OF_BATCHES, "", id="one for all"),
        pytest.param(OF_BATCHES.replace("size = 8", "size = 64 // nranks"), "", id="shared out"),
    ],
)
def test_batches_of_sizes_that_each_rank_has_for_itself(cell: str, said: str, tmp_path: Path) -> None:
    written = WrittenRun(tmp_path / "home", cell=cell)
    way = (Call(file=a_spec().program, line=7, function="fit"),)
    found = sized_by_rank(way, Sources.of(written.run, written.directory))

    assert (f"{found['at']}  {found['source']}" if found is not None else "") == said


DRAWN = """\
{0}
{1}
for batch in loader:
    backward(batch)
barrier()
"""
OWN_SEED = "random.seed(7 + rank)"
TOLD = (
    f"; each rank may draw other samples, and so more or fewer (line 1  {OWN_SEED}): draw them with one seed"
)


@pytest.mark.parametrize(
    ("seed", "chooses", "told"),
    [
        pytest.param(OWN_SEED, "rows = random.sample(rows, count)", True, id="a sample"),
        pytest.param(OWN_SEED, "rows = Subset(data, mine)", True, id="a subset"),
        pytest.param(
            OWN_SEED, "rows = [row for row in rows if random.random() < 0.5]", True, id="one by one"
        ),
        pytest.param(OWN_SEED, "table = table[np.random.rand(len(table)) < 0.8]", True, id="of a table"),
        pytest.param(OWN_SEED, "keep = torch.rand(1).item() > share", True, id="a tensor's number"),
        pytest.param(OWN_SEED, "x = torch.rand(64, 8)", False, id="random data"),
        pytest.param(OWN_SEED, "x = rng.uniform(size=(64, 8))", False, id="other random data"),
        pytest.param(OWN_SEED, "nn.init.uniform_(weight)", False, id="weights"),
        pytest.param(OWN_SEED, "rows = read()", False, id="nothing is drawn"),
        pytest.param("random.seed(7)", "rows = random.sample(rows, count)", False, id="one seed"),
    ],
)
def test_samples_that_each_rank_draws_for_itself_may_be_more_or_fewer(
    seed: str, chooses: str, told: bool, tmp_path: Path
) -> None:
    sides = at((0,), "backward", (4, "<module>")), at((1,), "barrier", (5, "<module>"))

    hint = reason(a_program(tmp_path, DRAWN.format(seed, chooses)), *sides)

    assert hint.signature == "hang-loop"
    assert hint.cause.en.endswith(TOLD) is told
    assert told or "draw" not in hint.cause.en
