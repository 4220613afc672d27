"""What can be said of a program before it is started, without importing anything it imports.

Each check is right or silent. ``certain`` is only what no rank can get past and what the text alone shows:
names, modules and calls that are not there. Whatever depends on ranks and devices is a warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.diagnosis.checks.environment import assignments, check_environment
from nbdist.diagnosis.checks.finding import Finding, Rule, where
from nbdist.diagnosis.checks.machine import check_machine, missing_modules
from nbdist.diagnosis.checks.names import check_names
from nbdist.diagnosis.checks.origins import origin_of
from nbdist.diagnosis.checks.placement import check_placement
from nbdist.diagnosis.checks.program import Program
from nbdist.diagnosis.checks.removed import check_removed
from nbdist.diagnosis.checks.situation import Build, Holding, Origin, Situation
from nbdist.diagnosis.checks.training import check_training

__all__ = [
    "Build",
    "Finding",
    "Holding",
    "Origin",
    "Program",
    "Rule",
    "Situation",
    "assignments",
    "check",
    "origin_of",
    "where",
]

# said better by others: fluid's own row, apex's own row, the frameworks before anything is started
_SAID_ELSEWHERE = frozenset({"apex", "torch", "paddle", "nbdist"})


def check(source: str, situation: Situation, path: Sequence[str] = ()) -> list[Finding]:
    """Everything that is found, what is certain first, then by line. ``path`` is where ranks find modules.

    Raises SyntaxError or ValueError for what is no Python.
    """
    program = Program.of(source)
    findings = [
        *check_names(program, situation, path),
        *check_removed(program, situation),
        *missing_modules(program, situation, _SAID_ELSEWHERE),
        *check_environment(program, situation),
        *check_placement(program, situation),
        *check_training(program, situation),
        *check_machine(program, situation),
    ]
    return sorted(findings, key=lambda found: (not found.certain, found.line or 0))
