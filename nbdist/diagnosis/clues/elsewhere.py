"""A name that an error misses and a library has in another place: another module, an object within, another
parameter."""

from __future__ import annotations

import re

from nbdist.diagnosis.clues.calls import NAMELESS
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.text import Both, both

_ATTRIBUTE = re.compile(r"(?P<of>module '[\w.]+'|'[\w.]+' object|'[\w.]+') has no attribute '(?P<name>\w+)'")
_IMPORT = re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<of>[\w.]+)'")
_KEYWORD = re.compile(r"(?P<called>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'")
_OF_CALLS = ("", "argument-unknown", "keyword-renamed", "keyword-of-other")
_FEW = 300
"""Characters of a list of parameters that one still reads."""


def of_elsewhere(failure: Failure) -> Hint | None:
    report = failure.report
    if report is None or not _is_of_report(failure):
        return None
    if (found := _KEYWORD.search(report.message)) is not None:
        return _of_keyword(found["called"], found["name"], report.elsewhere, report.takes)
    found = _IMPORT.search(report.message) or _ATTRIBUTE.search(report.message)
    if found is None or not report.elsewhere:
        return None
    path, of = report.elsewhere, re.sub(r"^module |'| object", "", found["of"])
    values = {"of": of, "name": found["name"], "path": path, "module": path.rpartition(".")[0]}
    if path.startswith("."):
        return hint("name-within", **values, member=path.split(".")[1])
    is_import = report.message.startswith("cannot import")
    if is_import or found["of"].startswith("module"):
        return hint("name-of-other-module", **values)
    return hint("class-of-module" if found["name"][:1].isupper() else "function-not-method", **values)


def _of_keyword(called: str, name: str, elsewhere: str, takes: str) -> Hint | None:
    values = {
        "called": NAMELESS.sub("", called),
        "name": name,
        "other": elsewhere.rstrip("="),
        "takes": takes,
    }
    if elsewhere.endswith("="):
        return hint("keyword-renamed", **values)
    if elsewhere:
        return hint("keyword-of-other", **values)
    return hint("keyword-not-taken", **values) if takes and len(takes) <= _FEW else None


def note_of_parameters(failure: Failure) -> list[Both]:
    """What the function takes that was called wrongly, unless that was said."""
    report = failure.report
    known = failure.hint.signature if failure.hint is not None else ""
    if report is None or not report.takes or known not in _OF_CALLS or not _is_of_report(failure):
        return []
    if len(report.takes) > _FEW:
        return []
    called = NAMELESS.sub("", report.message.partition("()")[0])
    return [both("diagnosis.parameters", called=called, takes=report.takes)]


def _is_of_report(failure: Failure) -> bool:
    """Whether the cause is what left the program: of that one the names were looked for."""
    report, complaint = failure.report, failure.complaint
    return report is not None and (complaint is None or complaint.root.text.startswith(report.type))
