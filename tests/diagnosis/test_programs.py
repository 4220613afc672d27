"""Programs that fail for real, on two CPU ranks: the report names the right rank, line and cause.

What a program must lead to stands in its first line: ``# expect: rank 1, line 9, signature NAME``, where
the rank may be ``any`` (all do the same), line and signature ``none``, and ``early R`` or ``absent R``
may follow. ``# run:`` gives other options than ``-n 2``, ``# needs:`` what not every machine has.

Each run was recorded, with the text of its program, and the tests read what nbdist reports of that. Those of
``LIVE`` run as well: they show a way of failing of their own. NBDIST_DIAGNOSIS=all (``make test-diagnosis``)
runs every one, NBDIST_DIAGNOSIS=record also records it: write a new program into ``programs/`` for that.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from nbdist.diagnosis import Failure, diagnose, failure_report
from nbdist.feed.explanation import ROOM, encode
from nbdist.runner import RunHandle
from tests.conftest import RunCell
from tests.diagnosis.recordings import RECORDED, laid_out, program_of, record

FILES = {path.stem: path.read_text() for path in (Path(__file__).parent / "programs").glob("*.py")}
PROGRAMS = {path.stem: program_of(path.stem) for path in sorted(RECORDED.glob("*.json"))} | FILES
LIVE = [
    *("healthy_words_of_failure", "paddle_fleet_with_one_rank", "paddle_peer_raises"),
    *("python_arguments_refused", "python_bus_error", "python_directory_made_twice", "python_disk_full"),
    *("python_error_caught_and_exit", "python_error_printed_and_left", "python_exception_group"),
    *("python_interrupted", "python_leaves_with_a_word", "python_native_code_gives_up", "python_raise_from"),
    *("python_recursion", "python_syntax_error_in_a_module", "python_unknown_after_known_words"),
    *("python_wait_for_times_out", "torch_only_rank_0_inits", "torch_rank_does_not_come"),
    *("torch_uneven_batches", "torch_worker_raises"),
]
ASKED = os.environ.get("NBDIST_DIAGNOSIS", "")


def header(source: str, key: str) -> str:
    match = re.search(rf"^# {key}: (.+)$", source, re.MULTILINE)
    return match[1] if match is not None else ""


def skip_where_it_cannot_run(name: str, source: str) -> None:
    for framework in ("torch", "paddle"):
        # looked for, not imported: this process is to stay one without frameworks
        if framework in name and find_spec(framework) is None:
            pytest.skip(f"{framework} is not installed")
    needs = header(source, "needs")
    if needs == "Linux" and not sys.platform.startswith("linux"):
        pytest.skip("needs Linux")
    if needs.startswith("python") and sys.version_info < tuple(map(int, needs.split()[1].split("."))):
        pytest.skip(f"needs {needs}")


def in_short(diagnosis: Failure | None) -> str:
    """Return a diagnosis in the words of a program's first line."""
    if diagnosis is None:
        return "nothing"
    failure, hint = diagnosis, diagnosis.hint
    parts = [
        f"rank {failure.rank}",
        f"line {failure.line or 'none'}",
        f"signature {hint.signature if hint is not None else 'none'}",
        *(f"early {rank}" for rank in diagnosis.early_exits),
        *(f"absent {rank}" for rank in failure.absent),
    ]
    return ", ".join(parts)


def in_data(failure: dict[str, Any] | None) -> tuple[object, ...] | None:
    """Return what a program reads of a failure."""
    return failure and tuple(failure[name] for name in ("rank", "line", "signature", "cause", "fix"))


def _hint(diagnosis: Failure) -> tuple[str, str, str]:
    hint = diagnosis.hint
    return ("", "", "") if hint is None else (hint.signature, hint.cause.en, hint.fix.en)


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", PROGRAMS if ASKED else LIVE)
def test_the_report_names_rank_line_and_cause(name: str, run_cell: RunCell) -> None:
    source = PROGRAMS[name]
    skip_where_it_cannot_run(name, source)

    handle = run_cell(header(source, "run") or "-n 2", source, limit=150)

    if ASKED == "record":
        record(name, handle.directory)
    check(handle, header(source, "expect"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_report_on_a_recorded_run_names_rank_line_and_cause(name: str, tmp_path: Path) -> None:
    check(RunHandle(laid_out(name, tmp_path / "home" / "runs")), header(PROGRAMS[name], "expect"))


def check(handle: RunHandle, expected: str) -> None:
    diagnosis = diagnose(handle.run, handle.directory)
    summary = in_short(diagnosis)
    if expected.startswith("rank any"):
        summary = re.sub(r"^rank \d+", "rank any", summary)
    report = failure_report(diagnosis) if diagnosis is not None else ""
    logs = "\n".join(handle.logs(rank) for rank in range(handle.run.spec.world_size))
    assert summary == expected, f"{report}\n\n{logs}"
    explained = handle.explain().to_dict()
    assert len(encode(explained).encode()) <= ROOM
    assert in_data(explained["failure"]) == (
        diagnosis and (diagnosis.rank, diagnosis.line, *_hint(diagnosis))
    )
