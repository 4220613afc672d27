"""Ranks that part inside of a library, which calls the program back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.diagnosis.hangs.hooks import is_in_loop_of_library, of_hooks, of_library
from nbdist.diagnosis.hangs.parting import of_parting
from nbdist.diagnosis.places import CodeLocation, Sources
from nbdist.diagnosis.sides import Side
from nbdist.store.reports import Call
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec

STOPS = """\
class StopBelow(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step % 10 == 0:
            return control
        if state.global_step > 3 and state.loss < self.target:
            control.should_training_stop = True
        return control

class Model(nn.Module):
    def forward(self, x, labels=None):
        if labels.any():
            return self.loss(x, labels)
        return x

trainer.train()
"""
LOGS = """\
class Shapes(LightningModule):
    def validation_step(self, batch, _):
        for label in batch.unique():
            self.log(f"loss/{label}", batch.mean(), sync_dist=True)

trainer.fit(Shapes())
"""
EVALUATES = """\
class Shown(Callback):
    def on_epoch_end(self, epoch):
        if dist.get_rank() != 0:
            return
        self.model.evaluate(self.data)

model.fit(data)
model.evaluate(data)
"""
LIBRARY = "/usr/lib/python3/dist-packages/trainer/loops.py"


def a_program(folder: Path, text: str) -> Sources:
    written = WrittenRun(folder / "home", cell=text)
    return Sources.of(written.run, written.directory)


def inside(rank: int, line: int, *calls: tuple[str, int]) -> Side:
    """A rank that has come from a line of the program into these functions of a library."""
    own = Call(file=a_spec().program, line=line, function="<module>")
    rest = (Call(file=LIBRARY, line=at, function=function) for function, at in calls)
    place = CodeLocation(line=line, what="barrier", waits=True)
    return Side(ranks=(rank,), way=(own,), calls=(own, *rest), place=place)


@pytest.mark.parametrize(
    ("program", "line", "said"),
    [
        pytest.param(
            STOPS,
            15,
            "trainer.train (line 15)|line 5  if state.global_step > 3 and state.loss < self.target:",
            id="a flag",
        ),
        pytest.param(LOGS, 6, "trainer.fit (line 6)|line 3  for label in batch.unique():", id="a log"),
        pytest.param(
            "trainer.train()", 1, "trainer.train (line 1)|rank 1: finalize", id="nothing of its own"
        ),
    ],
)
def test_where_the_library_parts_them_is_told_with_what_it_calls_back(
    tmp_path: Path, program: str, line: int, said: str
) -> None:
    function = "fit" if ".fit" in program else "train"
    sides = [
        inside(0, line, (function, 10), ("loop", 40), ("training_step", 71)),
        inside(1, line, (function, 10), ("loop", 55), ("finalize", 90)),
    ]

    hint = of_hooks(sides, a_program(tmp_path, program))

    assert hint is not None
    assert "rank 0: training_step, rank 1: finalize" in hint.cause.en
    call, _, last = said.partition("|")
    assert call in hint.cause.en
    assert hint.cause.en.endswith(last)


DRAWN = """\
L.seed_everything(12 + int(os.environ["RANK"]))
keep = np.random.rand(900) < 0.8
trainer.fit(Model(), loader(keep))
"""


@pytest.mark.parametrize(
    ("program", "function", "told"),
    [
        pytest.param(DRAWN, "on_advance_end", True, id="at the end of an epoch"),
        pytest.param(DRAWN, "training_step", False, id="in its middle"),
        pytest.param(DRAWN.replace('os.environ["RANK"]', "1"), "on_advance_end", False, id="one seed"),
        pytest.param(DRAWN.replace(" < 0.8", ""), "on_advance_end", False, id="none is left out"),
    ],
)
def test_samples_that_each_rank_draws_are_told_where_some_have_used_up_theirs(
    tmp_path: Path, program: str, function: str, told: bool
) -> None:
    sides = [
        inside(0, 3, ("fit", 10), (function, 71)),
        inside(1, 3, ("fit", 10), ("advance", 9)),
    ]

    hint = of_hooks(sides, a_program(tmp_path, program))

    assert hint is not None
    assert ("each rank may draw other samples, and so more or fewer (line 1" in hint.cause.en) is told


EARLY = """\
trainer = Trainer(model, args, compute_metrics=accuracy,
                  callbacks=[EarlyStoppingCallback(2)])
trainer.train()
"""


@pytest.mark.parametrize(
    ("program", "end", "name"),
    [
        pytest.param(EARLY, "_finalize_training", "hang-hooks-early", id="by its metric"),
        pytest.param(EARLY, "evaluate", "hang-hooks", id="not at the end"),
        pytest.param(EARLY.replace("compute_metrics", "x"), "_finalize_training", "hang-hooks", id="a loss"),
        pytest.param(
            f"data: IterableDataset\n{EARLY}", "_finalize_training", "hang-hooks", id="fewer batches"
        ),
    ],
)
def test_early_stopping_by_the_metric_of_each_rank_is_named(
    tmp_path: Path, program: str, end: str, name: str
) -> None:
    library = LIBRARY.replace("trainer", "transformers")
    line = program.count("\n")
    sides = [
        inside(0, line, ("train", 10), ("_inner", 40), (end, 71)),
        inside(1, line, ("train", 10), ("_inner", 55), ("_run_epoch", 90)),
    ]
    sides = [
        replace(side, calls=(side.calls[0], *(replace(one, file=library) for one in side.calls[1:])))
        for side in sides
    ]

    hint = of_hooks(sides, a_program(tmp_path, program))

    assert hint is not None
    assert hint.signature == name
    assert ("EarlyStoppingCallback (line 2)" in hint.cause.en) is (name == "hang-hooks-early")


def test_ranks_that_part_in_the_program_are_no_matter_of_a_library(tmp_path: Path) -> None:
    sides = [inside(0, 1, ("barrier", 10)), inside(1, 2, ("all_reduce", 20))]

    assert of_hooks(sides, a_program(tmp_path, "barrier()\nall_reduce()\n")) is None


def test_ranks_that_are_in_one_function_have_gone_one_way(tmp_path: Path) -> None:
    sides = [inside(0, 1, ("train", 10), ("wait", 5)), inside(1, 1, ("train", 12), ("wait", 5))]

    assert of_hooks(sides, a_program(tmp_path, "train()\n")) is None


def test_what_the_rank_alone_decides_is_to_be_called_on_every_rank(tmp_path: Path) -> None:
    sides = [
        inside(0, 7, ("fit", 10), ("loop", 40), ("on_epoch_end", 71)),
        inside(1, 7, ("fit", 10), ("loop", 55), ("run_epoch", 90)),
    ]

    hint = of_hooks(sides, a_program(tmp_path, EVALUATES))

    assert hint is not None
    assert hint.fix.en.startswith("what exchanges something is called on every rank")
    assert hint.cause.en.endswith("line 3  if dist.get_rank() != 0:")


DECORATED = """\
class Histogram(Callback):
    @rank_zero_only
    def on_batch_end(self, trainer):
        torch.save(counts, trainer.log_dir)

trainer.fit(model)
"""


WRITES = """\
class Table(Callback):
    def on_epoch_end(self, trainer, state):
        if not trainer.is_global_zero:
            return
        self.rows.append({"epoch": trainer.current_epoch})
        with open(self.path, "w") as file:
            json.dump(self.rows, file)

class Budget(Callback):
    def on_step_end(self, trainer, state):
        if trainer.is_global_zero:
            print(state.step)
        trainer.should_stop = time.monotonic() > self.end

trainer.fit(model)
"""


def test_what_one_rank_alone_prints_and_writes_has_not_parted_them(tmp_path: Path) -> None:
    sides = [inside(0, 15, ("finalize", 3)), inside(1, 15, ("run_epoch", 9))]

    found = of_hooks(sides, a_program(tmp_path, WRITES))

    assert found is not None
    assert found.signature == "hang-hooks"
    assert found.cause.en.endswith(
        "this may differ: line 13  trainer.should_stop = time.monotonic() > self.end"
    )


def test_what_a_library_calls_back_on_one_rank_alone_is_named_by_its_decorator(tmp_path: Path) -> None:
    sources, program = a_program(tmp_path, DECORATED), a_spec().program
    back = Call(file=program, line=4, function="on_batch_end")
    hook = inside(0, 6, ("fit", 10), ("call_hook", 40))
    alone = replace(hook, way=(*hook.way, back), calls=(*hook.calls, back))

    hint = of_parting([alone, inside(1, 6, ("fit", 10), ("run_batch", 55))], sources)

    assert hint is not None
    assert hint.cause.en.startswith("rank 0 alone was in a function under  @rank_zero_only  (line 2)")
    assert "outside of that function" in hint.fix.en


def test_of_ranks_that_cannot_be_asked_nothing_is_said(tmp_path: Path) -> None:
    assert of_parting([], a_program(tmp_path, "trainer.fit()\n")) is None


ENGINE = """\
def step(engine, batch):
    loss.backward()

def validate(engine):
    if idist.get_rank() == 0:
        evaluator.run(loader)

trainer.run(loader)
"""


def test_what_one_rank_alone_does_is_named_where_others_are_called_back_too(tmp_path: Path) -> None:
    sources, program = a_program(tmp_path, ENGINE), a_spec().program
    sides = []
    for rank, line, function in ((0, 6, "validate"), (1, 2, "step")):
        back = Call(file=program, line=line, function=function)
        hook = inside(rank, 8, ("run", 10), ("fire", 40 + rank))
        sides.append(replace(hook, way=(*hook.way, back), calls=(*hook.calls, back)))

    hint = of_parting(sides, sources)

    assert hint is not None
    assert hint.cause.en.startswith("rank 0 alone went into  if idist.get_rank() == 0:  (line 5)")


@pytest.mark.parametrize(
    ("function", "loops"), [("fit", True), ("train", True), ("backward", False), ("barrier", False)]
)
def test_ranks_that_a_library_trains_are_in_its_loop(tmp_path: Path, function: str, loops: bool) -> None:
    side = inside(0, 1, (function, 10), ("all_reduce", 40))

    assert is_in_loop_of_library(side, a_program(tmp_path, "trainer.fit()\n")) is loops


def test_the_loop_of_a_library_that_one_rank_has_come_past_is_named(tmp_path: Path) -> None:
    left, still = inside(0, 8, ("evaluate", 10)), inside(1, 7, ("fit", 10), ("run_epoch", 90))

    hint = of_parting([left, still], a_program(tmp_path, EVALUATES))

    assert hint is not None
    assert hint.cause.en.startswith("rank 0 left model.fit (line 7), rank 1 is still in it")
    assert hint.cause.en.endswith("line 3  if dist.get_rank() != 0:")


def test_a_call_that_is_no_loop_is_not_left(tmp_path: Path) -> None:
    still = inside(1, 7)
    torch = Call(file="/v/lib/python3.11/site-packages/torch/_tensor.py", line=9, function="backward")

    assert (
        of_library(
            replace(still, calls=(*still.calls, torch)),
            inside(0, 8),
            still.way[0],
            a_program(tmp_path, EVALUATES),
        )
        is None
    )


def test_ranks_that_logged_other_names_are_told_by_the_lines_that_log(tmp_path: Path) -> None:
    result = "/lib/python3/site-packages/lightning/pytorch/trainer/connectors/logger_connector/result.py"
    adding = inside(0, 6, ("run", 154), ("on_advance_end", 406))
    adding = replace(adding, calls=(*adding.calls, Call(file=result, line=248, function="compute")))

    hint = of_hooks([adding, inside(1, 6, ("run", 153), ("advance", 300))], a_program(tmp_path, LOGS))

    assert hint is not None
    assert hint.signature == "hang-logged"
    own = f"class Rows(IterableDataset): ...\n{LOGS}"
    sides = [adding, inside(1, 6, ("run", 153), ("advance", 300))]
    at_the_end = of_hooks(sides, a_program(tmp_path / "own", own))
    assert at_the_end is not None
    assert at_the_end.signature == "hang-logged-at-the-end"
    assert hint.cause.en.endswith("or fewer: see line 4, within line 3  for label in batch.unique():")


STOPPED = """\
class Console(Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.is_global_zero and self.asked():
            trainer.should_stop = True

class Model(LightningModule):
    def validation_step(self, batch, _):
        self.log("loss", batch.mean(), sync_dist=True)

trainer.fit(Model())
"""


def test_where_all_log_alike_a_flag_has_sent_them_different_ways(tmp_path: Path) -> None:
    result = "/lib/python3/site-packages/lightning/pytorch/trainer/connectors/logger_connector/result.py"
    adding = inside(0, 10, ("run", 154), ("on_advance_end", 406))
    adding = replace(adding, calls=(*adding.calls, Call(file=result, line=248, function="compute")))
    sides = [adding, inside(1, 10, ("run", 153), ("advance", 300))]

    hint = of_hooks(sides, a_program(tmp_path, STOPPED))

    assert hint is not None
    assert hint.cause.en.endswith("line 3  if trainer.is_global_zero and self.asked():")
    assert "decides alike on all" in hint.fix.en
