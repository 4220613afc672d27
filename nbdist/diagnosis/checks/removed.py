"""Calls and modules that are no more: what old programs use, since when it is gone, what to write today."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from typing import Any

from nbdist.diagnosis.checks.finding import Finding, Situation, found
from nbdist.diagnosis.checks.program import Place, Program
from nbdist.tables import read_table

_SHOWN = 4


def check_removed(program: Program, situation: Situation) -> list[Finding]:
    uses = _uses(program)
    findings = _of_module(uses, "paddle.fluid", _table()["fluid"], "fluid", situation)
    if any(name.partition(".")[0] == "apex" for name, _, _ in uses) and not situation.installed("apex"):
        findings += _of_module(uses, "apex", _table()["apex"], "apex", situation)
    seen: set[str] = set()
    for name, line, place in uses:
        for old, package, since, instead in _rows():
            if (name == old or name.startswith(f"{old}.")) and old not in seen:
                version = _version(package, situation)
                if version is None or not at_least(version, since):
                    continue
                seen.add(old)
                values = {"said": old, "package": package, "version": version, "instead": instead}
                findings.append(found("removed", line, place.always, **values))
    return findings


@cache
def _table() -> dict[str, Any]:
    return read_table(__file__, "removed")


@cache
def _rows() -> list[tuple[str, str, str, str]]:
    """The dotted name, as the program resolves to it; the distribution that it is gone from (or "python"),
    since which version, and what to write instead."""
    return [
        (name, package, since, instead)
        for package, versions in _table()["removed"].items()
        for since, names in versions.items()
        for name, instead in names.items()
    ]


def _of_module(
    uses: list[tuple[str, int, Place]], module: str, table: dict[str, str], rule: str, situation: Situation
) -> list[Finding]:
    """One finding for a module that is gone, with what to write for those of its parts that are used."""
    inside = [use for use in uses if use[0] == module or use[0].startswith(f"{module}.")]
    if not inside:
        return []
    version = _version("paddlepaddle", situation) if rule == "fluid" else ""
    if version is None or (rule == "fluid" and not at_least(version, "2.5")):
        return []
    used = {old: table[old] for name, _, _ in inside if (old := _row(name.removeprefix(f"{module}."), table))}
    said = [f"{old} → {new}" for old, new in used.items()]
    left, listed = len(said) - _SHOWN, "; ".join(said[:_SHOWN])
    new = "paddle.nn, paddle.io" if rule == "fluid" else "torch.amp, torch.nn.parallel"
    what = f"{listed}, and {left} more" if left > 0 else listed or f"write it with  {new}"
    what_zh = f"{listed}，另有 {left} 处" if left > 0 else listed or f"改用  {new}"
    _, line, place = inside[0]
    return [found(rule, line, place.always, version=version or "", instead=what, instead_zh=what_zh)]


def _row(name: str, table: dict[str, str]) -> str:
    """The entry of a table that ``name`` is, or is a part of."""
    return next((old for old in table if name == old or name.startswith(f"{old}.")), "")


def _uses(program: Program) -> list[tuple[str, int, Place]]:
    """Every dotted name that is imported or used, in the order of the lines; the whole of each chain."""
    found = [
        (name.removesuffix(".*"), statement.lineno, program.places[statement])
        for name, statement in program.imports()
    ]
    inner = {id(node.value) for node in program.places if isinstance(node, ast.Attribute)}
    for node, place in program.places.items():
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            name = program.dotted(node)
            if "." in name and isinstance(node.ctx, ast.Load) and not place.attempted:
                found.append((name, node.lineno, place))
    # a condition may ask for the version
    found = [use for use in found if use[2].plain]
    return sorted(found, key=lambda use: (use[1], use[0]))


def _version(package: str, situation: Situation) -> str | None:
    if package == "python":
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    if package == "paddlepaddle":
        build = situation.build("paddle")
        return build.version if build is not None else None
    return situation.version(package)


def at_least(version: str, wanted: str) -> bool:
    """Whether a version is this one or a later one, by its leading numbers."""
    numbers = [tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, wanted)]
    return numbers[0] >= numbers[1]
