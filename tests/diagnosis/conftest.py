"""The scores of the reported programs, printed at the end of a test run with some of them."""

from __future__ import annotations

import pytest

from tests.diagnosis.score import Score, table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ended = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    scores = [value for report in ended for key, value in report.user_properties if key == "score"]
    if scores:
        terminalreporter.section("how good the reports are")
        for line in table({name: Score(*rest) for name, *rest in scores}):
            terminalreporter.write_line(line)
