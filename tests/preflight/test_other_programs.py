"""The checks over foreign programs: every file of Python, torch and paddle that is installed.
NBDIST_CHECKS=all checks all of them, else every fiftieth."""

from __future__ import annotations

import os
import sysconfig
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from nbdist.preflight import Finding, Rule, Situation, check, guarded

_ONE_OF = 1 if os.environ.get("NBDIST_CHECKS") == "all" else 50


def sources(package: str) -> Iterator[Path]:
    if package == "Python":
        root = Path(sysconfig.get_path("stdlib"))
    else:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            pytest.skip(f"{package} is not installed")
        root = Path(spec.origin).parent
    for path in root.rglob("*.py"):
        inside = path.relative_to(root)
        if "site-packages" not in inside.parts and zlib.crc32(str(inside).encode()) % _ONE_OF == 0:
            yield path


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("package", ["Python", "torch", "paddle"])
def test_no_check_fails_over_what_is_installed(package: str) -> None:
    broken, looked_at = [], 0
    for path in sources(package):
        try:
            findings = check(path.read_text(encoding="utf-8"), Situation(), [str(path.parent)])
        except (SyntaxError, ValueError, RecursionError):
            continue  # Python's own tests hold what is no Python
        looked_at += 1
        broken += [f"{path}: {finding.text()}" for finding in findings if finding.rule.name == "check-broken"]

    assert looked_at > 20
    assert not broken


def test_a_check_that_fails_is_a_line_and_stops_no_program(caplog: pytest.LogCaptureFixture) -> None:
    def breaks() -> list[Finding]:
        raise AttributeError("'str' object has no attribute 'name'")

    with caplog.at_level("INFO", logger="nbdist"):
        [finding] = guarded("names", breaks)

    assert not finding.certain
    assert "nbdist's own check of names failed (AttributeError in test_other_programs.py:" in finding.text()
    assert "'str' object has no attribute 'name'" in caplog.text


def test_what_the_other_checks_find_is_kept() -> None:
    rule = Rule(name="a rule", what="", instead="", what_zh="", instead_zh="")

    assert guarded("names", lambda: [Finding(rule=rule)]) == [Finding(rule=rule)]
