"""The check of commit messages (``.ci/commit_message.py``), which the commit-msg hook and CI run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import ROOT

PATH = ROOT / ".ci" / "commit_message.py"
WHY = "\n\nA rank that saves was cut off."


@pytest.mark.parametrize(
    ("message", "size", "wrong"),
    [
        pytest.param("Wait for ranks that save" + WHY, 40, None, id="as it is to be"),
        pytest.param("Correct a word", 2, None, id="a tiny change without a body"),
        pytest.param("Correct a word", 40, "a body", id="a change without a reason"),
        pytest.param("Ranks that save are waited for" + WHY, 40, "imperative", id="a statement"),
        pytest.param("Waiting for ranks" + WHY, 40, "imperative", id="a participle"),
        pytest.param("Wait for ranks that save." + WHY, 40, "full stop", id="a full stop"),
        pytest.param("Wait for ranks; stop the others" + WHY, 40, "one change", id="two changes"),
        pytest.param(f"Wait for {'x' * 64}" + WHY, 40, "73 characters", id="too long"),
        pytest.param("Wait for ranks\nthat save", 40, "empty line", id="no line between"),
        pytest.param("", 40, "imperative", id="nothing"),
    ],
)
def test_a_message_is_judged_by_subject_and_body(message: str, size: int, wrong: str | None) -> None:
    spec = importlib.util.spec_from_file_location("commit_message", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    fault = module.fault(message, size)

    assert fault is None if wrong is None else wrong in fault


def test_the_commits_after_the_check_are_judged_and_those_before_are_not(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=ada", "-c", "user.email=ada@localhost", "-c", "core.hooksPath=")
        subprocess.run(["git", *identity, *words], check=True, cwd=tmp_path, capture_output=True)

    def commit(message: str) -> None:
        git("add", "--all")
        git("commit", "--allow-empty", "-m", message)

    def checked() -> tuple[int, str]:
        words = [sys.executable, ".ci/commit_message.py"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    git("init", "--quiet")
    commit("rubbish, before the check")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "commit_message.py").write_text(PATH.read_text())
    commit("more rubbish, with the check")
    assert checked() == (0, "")

    (tmp_path / "file").write_text("line\n" * 20)
    commit("changed some lines")
    code, problem = checked()

    assert code == 1
    assert "changed some lines: the subject begins with no verb" in problem
    assert "rubbish" not in problem
