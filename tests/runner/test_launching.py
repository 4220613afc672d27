"""The start of a run, and what becomes of one that cannot begin."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist import options, runner
from nbdist.errors import LaunchError
from nbdist.runner.launching import beginning
from nbdist.store import RunStore
from tests.fakes.runs import a_spec


def test_a_run_that_was_to_be_warm_says_why_it_is_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("nbdist.launch.local.start", lambda *_: None)
    planned = runner.plan(options.parse("-n 2"), cell="pass", cwd=str(tmp_path))

    handle = runner.start(planned, warm=True)

    assert handle.notes[0].startswith("warm ranks were not used: this program imports none of")


def test_a_run_that_is_being_made_is_not_the_latest_yet(home: Path) -> None:
    made = RunStore(home).create(a_spec(), "import torch\n")
    begun = home / "runs/29991231-235959-cell-1-k3f9"
    begun.mkdir(mode=0o700)

    assert begun in [run.path for run in RunStore(home).directories()]
    assert runner.attach().run_id == made.run_id


def test_a_home_that_cannot_be_written_names_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    home = tmp_path / "file/nbdist"

    refused = pytest.raises(LaunchError, match=r"cannot be written .*%env NBDIST_HOME=/tmp/nbdist")
    with refused as raised, beginning(home / "runs/run"):
        RunStore(home).create(a_spec(), "import torch\n")

    assert "\n" not in str(raised.value)
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (
            errno.EDQUOT,
            "your quota on /.* is used up: delete old runs in {home}/runs, or choose another disk",
        ),
        (errno.EROFS, "/.* is mounted read-only: choose another disk with  %env NBDIST_HOME=/another/disk/"),
        (
            errno.EIO,
            "cannot be written .Input/output error.: choose another disk with  %env NBDIST_HOME=/tmp",
        ),
    ],
    ids=["a quota", "a read-only disk", "a broken disk"],
)
def test_a_write_that_a_disk_refuses_names_the_disk_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("NBDIST_HOME", str(home))
    planned = runner.plan(options.parse("-n 2"), cell="pass", cwd=str(tmp_path))

    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with pytest.raises(LaunchError, match=words.format(home=home)):
        runner.start(replace(planned, write_inputs=refuse))

    assert list((home / "runs").iterdir()) == []


class TakesJobs:
    """An engine that takes every job, and notes which it is to end."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def submit(self, directory: object, spec: object, environment: object) -> str:
        return "7"

    def cluster(self) -> str:
        raise KeyboardInterrupt

    def stop(self, job: str, *, gently: bool) -> bool:
        self.ended.append(job)
        return True


def test_a_job_that_nothing_will_watch_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TakesJobs()
    monkeypatch.setenv("NBDIST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("nbdist.runner.launching.engine_of", lambda *_, **__: engine)
    planned = runner.plan(options.parse("-n 2 --on slurm"), cell="pass", cwd=str(tmp_path))

    with pytest.raises(KeyboardInterrupt):
        runner.start(planned)

    assert engine.ended == ["7"]
    assert list((tmp_path / "home/runs").iterdir()) == []
