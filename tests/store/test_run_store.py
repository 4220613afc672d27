"""The runs of a user: made, listed, found; nothing of them is anybody else's to read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.errors import UnknownRun
from nbdist.model import Reason
from nbdist.store import RunStore
from nbdist.store.control import request_stop
from nbdist.store.journal import Journal
from tests.fakes.runs import RUN_ID, STARTED, a_spec

OLD_LENET = "20261119-090000-lenet-aaaa"
BERT = "20261120-120000-bert-base-bbbb"
NEW_LENET = "20261120-141503-lenet-k3f9"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "state" / "nbdist"


@pytest.fixture
def three_runs(home: Path) -> RunStore:
    store = RunStore(home)
    for run_id in (BERT, NEW_LENET, OLD_LENET):
        store.create(a_spec(run_id=run_id), "import torch\n")
    return store


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_everything_of_a_run_is_private(home: Path, tmp_path: Path) -> None:
    run = RunStore(home).create(a_spec(), "import torch\n")
    journal = Journal(run.journal)
    journal.append(STARTED[0])
    journal.close()
    request_stop(run, Reason.said("stop"))

    modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    files = {path for path in modes if (tmp_path / path).is_file()}
    assert len(files) == 5
    assert {modes[path] for path in files} == {0o600}
    assert {mode for path, mode in modes.items() if path not in files} == {0o700}


def test_a_new_run_has_its_cell_its_spec_and_a_place_for_each_rank(home: Path) -> None:
    run = RunStore(home).create(a_spec(ranks=2), "print('损失')\r\n")
    script = RunStore(home).create(a_spec(run_id=BERT), None)

    assert run.cell.read_bytes() == "print('损失')\r\n".encode()
    assert all(path.is_dir() for path in (run.rank(0).path, run.rank(1).path, run.control, run.board))
    assert run.rank(1, attempt=2).path == run.path / "ranks" / "1" / "attempt-2"
    assert not script.cell.exists()


def test_a_run_is_not_made_twice(three_runs: RunStore) -> None:
    with pytest.raises(FileExistsError):
        three_runs.create(a_spec(run_id=BERT), "another cell\n")

    assert three_runs.find(BERT).cell.read_text() == "import torch\n"


def test_runs_are_listed_the_newest_first(three_runs: RunStore) -> None:
    assert [run.run_id for run in three_runs.directories()] == [NEW_LENET, BERT, OLD_LENET]


def test_runs_of_the_same_second_are_listed_by_when_they_were_made(home: Path) -> None:
    made = ["20261120-141503-lenet-zzzz", "20261120-141503-lenet-aaaa", "20261120-141503-lenet-mmmm"]
    store = RunStore(home)
    for second, run_id in enumerate(made):
        run = store.create(a_spec(run_id=run_id), None)
        os.utime(run.spec, (second, second))

    assert [run.run_id for run in store.directories()] == made[::-1]


def test_a_run_that_is_being_made_is_the_newest_of_its_second(home: Path) -> None:
    store = RunStore(home)
    store.create(a_spec(run_id="20261120-141503-lenet-zzzz"), None)
    (store.runs / "20261120-141503-lenet-aaaa").mkdir()

    assert store.directories()[0].run_id == "20261120-141503-lenet-aaaa"


def test_what_is_no_run_is_not_listed(three_runs: RunStore) -> None:
    for name in ("lost+found", ".Trash", "20261120-lenet", f"{RUN_ID}.bak", "20261120-141503-LeNet-k3f9"):
        (three_runs.runs / name).mkdir()

    assert len(three_runs.directories()) == 3


def test_a_home_without_runs_lists_none(home: Path) -> None:
    store = RunStore(home)

    assert store.directories() == []
    with pytest.raises(UnknownRun, match=r"^no run lenet: there are no runs yet$"):
        store.find("lenet")
    assert not home.exists()


@pytest.mark.parametrize(
    ("wanted", "run_id"),
    [
        pytest.param(BERT, BERT, id="by its id"),
        pytest.param("bert-base-bbbb", BERT, id="by its label"),
        pytest.param("bert-base", BERT, id="by its name"),
        pytest.param("bbbb", BERT, id="by the end of its id"),
        pytest.param("lenet", NEW_LENET, id="by a name that two have, the newer"),
        pytest.param("aaaa", OLD_LENET, id="the older by its end"),
    ],
)
def test_a_run_is_found(three_runs: RunStore, wanted: str, run_id: str) -> None:
    assert three_runs.find(wanted).run_id == run_id


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param("resnet", id="another name"),
        pytest.param("bert", id="half a name"),
        pytest.param("", id="nothing"),
        pytest.param("../runs", id="a path"),
        pytest.param("*", id="a pattern"),
    ],
)
def test_an_unknown_run_names_the_known_ones(three_runs: RunStore, wanted: str) -> None:
    with pytest.raises(UnknownRun) as raised:
        three_runs.find(wanted)

    assert str(raised.value) == (f"no run {wanted}: the latest are lenet-k3f9, bert-base-bbbb, lenet-aaaa")
