"""The versions that a run stands on, and the commit of its program."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from nbdist.feed.comparison import compare
from nbdist.runner.launching import ask_git
from nbdist.runner.planning import versions_of
from nbdist.version import __version__
from tests.fakes.directories import WrittenRun
from tests.fakes.runs import a_spec
from tests.programs import until


def test_the_versions_are_read_without_an_import(tmp_path: Path) -> None:
    driver = tmp_path / "version"
    driver.write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)\n"
        "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
    )

    versions = versions_of("no_such_framework", gpus=True, driver=driver)

    assert versions == {
        "Python": platform.python_version(),
        "nbdist": __version__,
        "NVIDIA driver": "580.65.06",
    }
    assert "NVIDIA driver" not in versions_of("", gpus=True, driver=tmp_path / "none")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_git_says_the_commit_and_whether_files_were_changed_since(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "inside").mkdir(parents=True)
    (project / "train.py").write_text("print(1)\n")

    def git(*words: str) -> str:
        settings = ("-c", "user.name=ada", "-c", "user.email=ada@host")
        done = subprocess.run(
            ["git", "-C", str(project), *settings, *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def recorded(end: str, cwd: Path) -> tuple[object, object]:
        run_id = f"20261120-141503-lenet-{end}"
        program = str(home / "runs" / run_id / "cell.py")
        written = WrittenRun(home, a_spec(run_id=run_id, cwd=str(cwd), program=program))
        ask_git(written.directory, written.spec)
        until(lambda: not written.directory.git.exists() or written.directory.git.stat().st_size)
        rows = {row.name: row.values[0] for row in compare([(written.run, written.directory)]).rows}
        return rows.get("commit"), rows.get("clean")

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")[:12]
    (project / "untracked.txt").touch()

    assert recorded("aaaa", project / "inside") == (commit, True)
    (project / "train.py").write_text("print(2)\n")
    assert recorded("bbbb", project) == (commit, False)
    assert recorded("cccc", tmp_path) == (None, None)
