"""Checks of a program's text before it starts; nbdist imports nothing that it imports.

They concern several processes, devices, the launch, and effects of a notebook; Python reports one process's
mistakes as well. Each check is right or silent. ``certain`` findings stop every rank and show in the text
alone: missing names and calls. The rest are warnings.
"""

from __future__ import annotations

import ast
import logging
import os
import traceback
from collections.abc import Callable, Iterable, Sequence

from nbdist.preflight.capabilities import check_machine
from nbdist.preflight.collectives import check_training
from nbdist.preflight.finding import Build, Finding, Holding, Origin, Rule, Situation, finding_of, where
from nbdist.preflight.hard_coded import assignments, check_environment, check_placement
from nbdist.preflight.missing_names import check_names, origin_of, undefined_names
from nbdist.preflight.modules import check_removed
from nbdist.preflight.program import Program

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
    "undefined_names",
    "where",
]

_log = logging.getLogger(__name__)


def check(source: str | ast.Module, situation: Situation, path: Sequence[str] = ()) -> list[Finding]:
    """Return every finding, certain ones first, then by line. ``path`` is where ranks find modules.

    Raises SyntaxError, ValueError or RecursionError for text that cannot be parsed. A failing check is a
    finding itself: a defect of nbdist stops no program.
    """
    try:
        program = Program.of(source)
    except (SyntaxError, ValueError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001 - as below
        return [_broken("the whole program", error)]
    checks: dict[str, Callable[[], Iterable[Finding]]] = {
        "names": lambda: check_names(program, situation, path),
        "removed names": lambda: check_removed(program, situation),
        "the environment": lambda: check_environment(program, situation),
        "devices and ranks": lambda: check_placement(program, situation, path),
        "the training loop": lambda: check_training(program, situation),
        "the machine": lambda: check_machine(program, situation),
    }
    findings = [finding for name, look in checks.items() for finding in guarded(name, look)]
    return sorted(findings, key=lambda finding: (not finding.certain, finding.line or 0))


def guarded(name: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return a check's findings, or that it failed, with its traceback in the log."""
    try:
        return list(look())
    except RecursionError:
        return []  # a program nested this deeply is left unchecked, as one that cannot be parsed
    except Exception as error:  # noqa: BLE001 - whatever a check of ours does, the user's run starts
        return [_broken(name, error)]


def _broken(name: str, error: Exception) -> Finding:
    _log.info("the check of %s failed", name, exc_info=error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} in {os.path.basename(last.filename)}:{last.lineno}"
    return finding_of("check-broken", check=name, error=place)
