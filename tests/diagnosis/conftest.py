"""The scores of the reported programs, at the end of a run that has run some of them."""

from __future__ import annotations

import pytest

from tests.diagnosis.score import Score, table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ended = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    found = [value for one in ended for key, value in one.user_properties if key == "score"]
    if found:
        terminalreporter.section("how good the reports are")
        for line in table({name: Score(*rest) for name, *rest in found}):
            terminalreporter.write_line(line)
