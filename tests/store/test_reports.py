"""The error report that a rank left."""

from __future__ import annotations

import json
from pathlib import Path

from nbdist.store import ErrorFrame, ErrorReport, read_error

WRITTEN = {
    "type": "ZeroDivisionError",
    "message": "division by zero",
    "frames": [["cell.py", 9, "<module>", "1 / 0"]],
    "text": "Traceback (most recent call last):\n…",
    "time": 12.5,
}


def test_a_report_is_read(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text(json.dumps(WRITTEN))

    assert read_error(path) == ErrorReport(
        type="ZeroDivisionError",
        message="division by zero",
        frames=(ErrorFrame(file="cell.py", line=9, function="<module>", source="1 / 0"),),
        text="Traceback (most recent call last):\n…",
        time=12.5,
    )


def test_a_word_that_is_too_long_for_patterns_has_no_middle(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    text = "no file " + "a" * 300 + ": " + "b" * 5000 + "c"
    path.write_text(json.dumps({"type": "E", "message": text, "frames": [], "text": text, "time": 1.0}))

    report = read_error(path)

    assert report.message == "no file " + "a" * 300 + ": " + "b" * 200 + "…" + "b" * 199 + "c"
    assert report.text == report.message
