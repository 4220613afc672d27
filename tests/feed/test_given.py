"""A run's inputs and results on a screen."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nbdist.feed.given import ResultsWatch, inputs_of, results_of
from nbdist.model import Input, RunState
from nbdist.worker.result_files import keep_last, result
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import CREATED, STARTED, a_spec, exited, run_ended


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that lets a rank of four give values."""
    written = WrittenRun(tmp_path, a_spec(ranks=4)).happened(*STARTED)

    def give(rank: int, **values: object) -> WrittenRun:
        monkeypatch.setenv("NBDIST_RANK_DIR", str(written.directory.rank(rank).path))
        result(**values)
        return written

    return give


def test_inputs_are_those_that_were_named_and_then_those_that_came_along(tmp_path: Path) -> None:
    inputs = (
        # what nbdist.run calls
        Input(name="_call", type="partial", size=90),
        Input(name="helper", type="function", size=900, asked=False),
        Input(name="df", type="DataFrame", size=48_000_000),
        Input(name="Net", type="class", size=1200),
    )

    given = inputs_of(WrittenRun(tmp_path, a_spec(inputs=inputs)).run)

    assert list(given.texts("en")) == [("df", "DataFrame, 48 MB"), ("Net", "class"), ("helper", "function")]


def test_of_very_many_names_the_others_are_counted(tmp_path: Path) -> None:
    inputs = tuple(Input(name=f"n{number}", type="int", size=4) for number in range(30))

    given = inputs_of(WrittenRun(tmp_path, a_spec(inputs=inputs)).run)

    assert (len(given.values), given.more) == (12, 18)


def test_results_say_what_they_are_and_who_gave_them(give: Any) -> None:
    numpy = pytest.importorskip("numpy")
    give(2, acc=1.5, part=[1] * 50)
    give(3, part=[2] * 50)
    keep_last(0.5)
    written = give(0, acc=0.93, f=numpy.float64(0.5), a=numpy.ones((3, 4), "float32"), stuck=sys._getframe())

    given = results_of(written.run, written.directory)

    assert list(given.texts("en")) == [
        ("acc", "0.93"),
        ("f", "float64, 0.5"),
        ("a", "ndarray float32, 3 × 4, 176 B"),
        ("stuck", "not stored"),
        ("part", "list, 150 B, rank 2–3"),
    ]
    assert list(given.texts("zh"))[3:] == [("stuck", "未保存"), ("part", "list, 150 B, 进程 2–3")]


def test_a_model_is_its_state_dict_and_what_a_function_returned_is_the_result(give: Any) -> None:
    torch = pytest.importorskip("torch")
    written = give(0, model=torch.nn.Linear(10, 10), _={"a": 1})

    given = dict(results_of(written.run, written.directory).texts("en"))

    assert given["model"].startswith("state_dict (Linear), ")
    assert given["result()"] == "dict, {'a': 1}"


def test_results_of_a_run_that_goes_on_are_read_when_they_have_changed(give: Any) -> None:
    written = give(1, acc=1)
    watch = ResultsWatch(written.directory)

    first = watch.look(written.run, CREATED + 5)
    index = written.directory.rank(1).results / "acc.index.json"
    unseen = os.stat(index.parent).st_mtime_ns
    index.write_text(json.dumps(json.loads(index.read_text()) | {"repr": "2"}))
    os.utime(index.parent, ns=(unseen, unseen))
    same = watch.look(written.run, CREATED + 7)
    give(1, acc=3)
    soon, later = watch.look(written.run, CREATED + 7.1), watch.look(written.run, CREATED + 9)
    index.write_text(json.dumps(json.loads(index.read_text()) | {"repr": "4"}))
    written.happened(exited(0), exited(1), run_ended(RunState.FINISHED))
    last = watch.look(written.run, CREATED + 9.1)

    shown = [dict(given.texts("en"))["acc"] for given in (first, same, soon, later, last)]
    assert shown == [f"{value}, rank 1" for value in "11134"]


def test_to_list_results_reads_none(give: Any) -> None:
    written = give(0, thing={1: object})
    events: list[str] = []
    watching = [True]
    sys.addaudithook(lambda event, _: events.append(event) if watching and "pickle" in event else None)

    given = results_of(written.run, written.directory)

    watching.clear()
    assert given.values[0].about.startswith("dict, ")
    assert not events
