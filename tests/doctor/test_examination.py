"""Whole examinations: time limits, order, the page, the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from nbdist.doctor import Entry, Level, Probe, Report, examine, examine_mended, report_bundle, report_text
from nbdist.doctor.examination import examine_runs
from nbdist.doctor.examination_report import checks
from nbdist.doctor.installed import repair


def entry(level: Level = Level.OK, section: str = "machine", **more: str) -> Entry:
    return Entry(section=section, title="thing", level=level, what=more.pop("what", "there"), **more)


CHECKS = [
    pytest.param(row, id=f"{section}.{name}")
    for section, rows in checks().items()
    if section not in ("sections", "titles")
    for name, row in rows.items()
]


@pytest.mark.parametrize("row", CHECKS)
def test_a_check_has_a_level_and_its_chinese_needs_no_other_facts(row: dict[str, str]) -> None:
    def facts(text: str) -> set[str]:
        return set(re.findall(r"\{(\w+)", text))

    assert row["title"]
    assert row["what"]
    assert Level(row["level"])
    for key in ("what", "fix"):
        assert {name.removesuffix("_zh") for name in facts(row.get(f"{key}_zh", ""))} <= facts(
            row.get("what", "") + row.get(key, "")
        ) | {"home"}


def probe(look, limit: float = 5.0, section: str = "machine") -> Probe:
    return Probe(section=section, title="thing", look=look, limit=limit)


def test_a_probe_that_hangs_is_named_and_not_waited_for() -> None:
    released = threading.Event()

    def hang() -> Iterator[Entry]:
        released.wait(60)
        yield entry()

    started = time.monotonic()
    report = examine(looked_at=[probe(hang, limit=0.1), probe(lambda: [entry()])])
    released.set()

    assert time.monotonic() - started < 30
    assert [each.level for each in report.entries] == [Level.WARNING, Level.OK]
    assert "no answer within 0.1 s" in report.entries[0].what


def test_who_waits_for_the_doctor_sees_what_lasts() -> None:
    told: list[str] = []
    released = threading.Event()

    def last() -> Iterator[Entry]:
        released.wait(60)
        yield entry()

    def tell(text: str) -> None:
        told.append(text)
        released.set()

    examine(looked_at=[probe(last, limit=60), probe(lambda: [entry()])], tell=tell)

    assert told == ["examining: thing"]


def test_a_probe_that_fails_does_not_hide_the_others() -> None:
    def fail() -> Iterator[Entry]:
        raise ZeroDivisionError("oh")
        yield

    report = examine(looked_at=[probe(fail), probe(lambda: [entry()])])

    assert "ZeroDivisionError: oh" in report.entries[0].what
    assert report.entries[1].level is Level.OK


def test_the_sections_have_one_order_whoever_answers_first() -> None:
    report = examine(
        looked_at=[probe(lambda: [entry(section="board")]), probe(lambda: [entry(section="host")])]
    )

    assert [each.section for each in report.entries] == ["host", "board"]


@pytest.mark.parametrize(
    ("levels", "healthy", "verdict"),
    [
        pytest.param([Level.OK, Level.INFO], True, "all is well", id="green"),
        pytest.param([Level.WARNING], True, "1 warning", id="yellow"),
        pytest.param([Level.ERROR, Level.ERROR, Level.WARNING], False, "2 problems, 1 warning", id="red"),
    ],
)
def test_the_verdict_counts_what_is_wrong(levels: list[Level], healthy: bool, verdict: str) -> None:
    report = Report(entries=tuple(entry(level) for level in levels), seconds=1.0)

    assert report.healthy is healthy
    assert report_text(report, "en").endswith(f"{verdict} (1.0 s)")


def test_the_page_escapes_what_it_shows_and_says_levels_in_words() -> None:
    bad = entry(Level.ERROR, what="<b>", fix="rm <x>", what_zh="坏", fix_zh="修")
    report = Report(entries=(bad,), seconds=0.0)

    english, chinese = report_bundle(report, "en"), report_bundle(report, "zh")

    assert "&lt;b&gt;" in english["text/html"]
    assert "<code>rm &lt;x&gt;</code>" in english["text/html"]
    assert 'aria-label="problem"' in english["text/html"]
    assert "<script" not in english["text/html"]
    assert "坏" in chinese["text/html"]
    assert "解决方法：修" in chinese["text/plain"]


def test_what_can_be_mended_is_mended_once() -> None:
    broken = (entry(Level.WARNING, repair="page"), entry(Level.WARNING, repair="page"), entry(Level.ERROR))
    report = Report(entries=broken, seconds=0.0)

    assert repair(report, {"page": lambda: "the page is there"}) == ["the page is there"]
    assert repair(Report(entries=(entry(),), seconds=0.0)) == []


def test_only_the_sections_in_which_something_was_mended_are_looked_at_again() -> None:
    mended = entry(Level.WARNING, section="notebook", repair="page")
    report = Report(entries=(entry(section="python"), mended), seconds=2.0)
    fine = entry(section="notebook")

    again = examine_mended(
        report,
        [
            Probe(section="python", title="not asked", look=lambda: [entry(Level.ERROR, section="python")]),
            Probe(section="notebook", title="asked", look=lambda: [fine]),
        ],
    )

    assert again.entries == (entry(section="python"), fine)
    assert again.seconds >= 2.0


def test_the_command_gives_json_and_its_exit_code_says_whether_something_is_red() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nbdist", "doctor", "--json"], capture_output=True, text=True, timeout=150
    )

    printed = json.loads(done.stdout)
    assert done.returncode == (0 if printed["healthy"] else 1), done.stderr
    assert {"python", "machine", "network", "notebook", "board"} <= {e["section"] for e in printed["entries"]}
    assert all(e["fix"] for e in printed["entries"] if e["level"] == "error")


@pytest.mark.usefixtures("leaves_nothing")
def test_the_trial_run_sums_over_two_ranks() -> None:
    # looked for, not imported: this process is to stay one without frameworks
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")

    [result] = examine_runs("torch")

    assert result.level is Level.OK, result.what
    assert "all_reduce" in result.what
