"""The user's files, and their names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import nbdist
from nbdist.diagnosis import diagnose, failure_report
from nbdist.diagnosis.stack_text import sentence
from nbdist.diagnosis.stacks import take_stacks
from nbdist.programs.sources import Sources
from nbdist.store import RunDirectory
from tests.conftest import RunCell
from tests.programs import until

MODELS = """
import time

def step(batch):
    if batch:
        return forward(batch)

def forward(batch):
    raise ValueError(f"bad batch {batch}")

def wait():
    time.sleep(600)
"""
TRAINER = """
from pkg import models

def train(batch):
    models.step(batch)

def hang():
    models.wait()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with modules of the user's own."""
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").touch()
    (folder / "pkg" / "models.py").write_text(MODELS)
    (folder / "trainer.py").write_text(TRAINER)
    return folder


@pytest.mark.parametrize(
    ("file", "own", "name"),
    [
        pytest.param("/srv/train.py", True, "train.py", id="the program"),
        pytest.param("/srv/pkg/models.py", True, "pkg/models.py", id="below the working directory"),
        pytest.param("/src/mylib/loss.py", True, "mylib/loss.py", id="an editable install"),
        pytest.param("/srv/.venv/lib/python3.12/site-packages/x/y.py", False, "", id="in a venv there"),
        pytest.param("/usr/lib/python3.11/json/decoder.py", False, "", id="Python's own"),
        pytest.param("/usr/lib/python3/dist-packages/six.py", False, "", id="Debian's"),
        pytest.param("<frozen runpy>", False, "", id="frozen"),
        pytest.param(str(Path(nbdist.__file__).parent / "worker/metrics_log.py"), False, "", id="nbdist's"),
        pytest.param("/tmp/torchinductor_ada/ab/cab.py", False, "", id="what torch.compile wrote"),
    ],
)
def test_what_no_installer_put_there_is_the_users(file: str, own: bool, name: str) -> None:
    sources = Sources("/srv/train.py", RunDirectory(Path("/runs/20261120-141503-lenet-k3f9")), "/srv")

    assert sources.is_own(file) is own
    if own:
        assert sources.name(file) == name


def test_a_line_is_named_with_its_file_unless_it_is_the_programs() -> None:
    sources = Sources("/srv/train.py", RunDirectory(Path("/runs/20261120-141503-lenet-k3f9")), "/srv")

    assert sources.at("/srv/train.py", 3) == "3"
    assert sources.at("/srv/nets/lenet.py", 3) == "3 of nets/lenet.py"


def test_what_pip_has_installed_into_a_target_is_a_library(tmp_path: Path) -> None:
    target, cwd = tmp_path / "external-libraries", tmp_path / "work"
    (target / "einops-0.8.dist-info").mkdir(parents=True)
    (target / "einops").mkdir()
    sources = Sources(str(cwd / "train.py"), RunDirectory(tmp_path / "run"), str(cwd))

    assert not sources.is_own(str(target / "einops" / "einops.py"))
    assert sources.is_own(str(cwd / "pkg" / "models.py"))


@pytest.mark.usefixtures("leaves_nothing")
def test_an_error_in_a_module_of_the_users_is_shown_there(run_cell: RunCell, project: Path) -> None:
    handle = run_cell("-n 2", "import trainer\n\ntrainer.train([1])", cwd=project)

    diagnosis = diagnose(handle.run, handle.directory)

    report = failure_report(diagnosis)
    assert "ValueError at line 9 of pkg/models.py" in report.splitlines()[0]
    assert diagnosis.line == 3  # of the cell, where its link leads
    for line in ("cell line 3", "trainer.py line 5, in train", "pkg/models.py line 9, in forward"):
        assert f"  {line}" in report
    assert '    raise ValueError(f"bad batch {batch}")' in report


@pytest.mark.usefixtures("leaves_nothing")
def test_an_exception_of_a_class_of_the_cell_is_said_once(run_cell: RunCell) -> None:
    handle = run_cell("-n 1", "class MyErr(ValueError): ...\n\nraise MyErr('too far')")

    diagnosis = diagnose(handle.run, handle.directory)

    assert diagnosis is not None
    assert failure_report(diagnosis).count("MyErr: too far") == 1
    assert "left the program" not in failure_report(diagnosis)


@pytest.mark.usefixtures("leaves_nothing")
def test_a_stack_in_a_module_of_the_users_names_its_function_there(
    start_cell: RunCell, project: Path
) -> None:
    handle = start_cell("-n 1", "import trainer\nprint('here', flush=True)\ntrainer.hang()", cwd=project)
    until(lambda: "here" in handle.logs(0))

    deadline = time.monotonic() + 10
    while "time.sleep" not in (text := sentence(take_stacks(handle.directory))):
        assert time.monotonic() < deadline, text

    assert text == "rank 0 is in time.sleep at line 12 of pkg/models.py"
    rows = take_stacks(handle.directory).groups[0].rows
    assert [row.place for row in rows if row.own] == [
        "pkg/models.py line 12",
        "trainer.py line 8",
        "cell line 3",
    ]
