"""Whether ranks that wait are those that a run asks for. Who cannot be sure says no."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbdist.frameworks.preload import read_at_import
from nbdist.model import Plan, RankSpec

_STATUS = ("Umask", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "SigIgn")
_RESET = 1 << 0 | 1 << 1 | 1 << 12 | 1 << 14 | 1 << 16
"""SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGCHLD as bits: a rank never inherits that they are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a rank is made from before its program is known. ``first`` is where sys.path begins for a
    script; ``surroundings`` is what a process gets from the one that starts it, besides its environment."""

    framework: str
    python: str
    cwd: str
    python_path: tuple[str, ...]
    first: str
    environment: Mapping[str, str]
    ranks: tuple[RankSpec, ...]
    surroundings: Mapping[str, str]


def shape_of(plan: Plan) -> Shape:
    """The shape that the ranks of this run have."""
    spec = plan.spec
    own = spec.cwd if spec.module else os.path.dirname(spec.program)
    return Shape(
        framework=spec.framework,
        python=spec.python,
        cwd=spec.cwd,
        python_path=spec.python_path,
        first="" if spec.python_path else own,
        environment=plan.environment,
        ranks=spec.ranks,
        surroundings=surroundings(),
    )


def surroundings(proc: Path = Path("/proc/self")) -> dict[str, str]:
    """What a process started now would inherit besides its environment (proc(5)), by name."""
    found = {"priority": str(os.getpriority(os.PRIO_PROCESS, 0)), "CPUs": str(os.sched_getaffinity(0))}
    for name, file in {"limits": "limits", "control group": "cgroup", "OOM score": "oom_score_adj"}.items():
        found[name] = (proc / file).read_text()
    for line in (proc / "status").read_text().splitlines():
        name, _, value = line.partition(":\t")
        if name in _STATUS:
            found[name] = value.strip()
    found["SigIgn"] = f"{int(found['SigIgn'], 16) & ~_RESET:x}"
    return found


def difference(waiting: Shape, wanted: Shape, reads: frozenset[str]) -> str:
    """Why ranks of one shape cannot be used for another, in words; empty when they can.

    ``reads`` are the variables that Python code has asked for while the framework was imported.
    """
    if waiting.framework != wanted.framework:
        imports = wanted.framework or "no framework"
        return f"the warm ranks have imported {waiting.framework}, and this program imports {imports}"
    if len(waiting.ranks) != len(wanted.ranks):
        return f"the warm ranks were started with -n {len(waiting.ranks)}"
    if waiting.python != wanted.python:
        return f"the warm ranks were started with {waiting.python}"
    if waiting.cwd != wanted.cwd:
        return f"the working directory was {waiting.cwd}"
    if (waiting.python_path, waiting.first) != (wanted.python_path, wanted.first):
        return "sys.path has changed"
    for then, now in zip(waiting.ranks, wanted.ranks, strict=True):
        if then.device != now.device:
            return f"rank {now.rank} was on {then.device}"
        if name := _read(
            {**waiting.environment, **then.environment}, {**wanted.environment, **now.environment}, reads
        ):
            return f"{name} is not what it was when {waiting.framework} was imported, which may read it"
    for name, value in wanted.surroundings.items():
        if waiting.surroundings.get(name) != value:
            return f"this process has other {name}"
    return ""


def _read(then: Mapping[str, str], now: Mapping[str, str], reads: frozenset[str]) -> str:
    """A variable that differs, and that the imports may have read."""
    changed = (name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name))
    return next((name for name in changed if read_at_import(name, reads)), "")
