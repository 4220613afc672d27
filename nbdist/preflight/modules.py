"""The modules that a program imports: names that frameworks removed, and the user's own."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence

from nbdist.preflight.capabilities import at_least
from nbdist.preflight.finding import Finding, Situation, finding_of
from nbdist.preflight.program import Place, Program
from nbdist.programs.removed import APEX, Removed, removed_row
from nbdist.programs.sources import parsed

_BIG = 100_000
_MOST = 60
_SHOWN = 4


def check_removed(program: Program, situation: Situation) -> Iterator[Finding]:
    """Yield one finding for each version that removed names which the program uses."""
    uses: dict[tuple[str, str], list[tuple[Removed, int, Place]]] = {}
    for name, line, place in _uses(program):
        if (row := removed_row(name)) is not None:
            uses.setdefault((row.package, row.since), []).append((row, line, place))
    for (package, since), used in uses.items():
        version = _version(package, situation)
        if version is not None and at_least(version, since):
            rows = dict.fromkeys(row for row, _, _ in used)
            # a module is implied by its parts
            shown = [row for row in rows if not any(other.name.startswith(f"{row.name}.") for other in rows)]
            more = f", … +{len(shown) - _SHOWN}" if len(shown) > _SHOWN else ""
            instead = ", ".join(f"{row.name} → {row.instead}" for row in shown[:_SHOWN]) + more
            rule = "apex" if package == APEX else "removed"
            values = {"package": package, "version": version, "since": since, "instead": instead}
            _, line, place = used[0]
            yield finding_of(rule, line, place.always, **values)


def _uses(program: Program) -> list[tuple[str, int, Place]]:
    """Return every dotted name imported or used unconditionally, in line order; chains whole."""
    uses = [
        (name.removesuffix(".*"), statement.lineno, program.places[statement])
        for name, statement in program.imports()
    ]
    inner = {id(node.value) for node in program.places if isinstance(node, ast.Attribute)}
    for node, place in program.places.items():
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner:
            name = program.dotted(node)
            if "." in name and isinstance(node.ctx, ast.Load) and _root(node) not in program.several:
                uses.append((name, node.lineno, place))
    return sorted((use for use in uses if use[2].plain), key=lambda use: (use[1], use[0]))


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _version(package: str, situation: Situation) -> str | None:
    if package == APEX:
        return None if situation.installed(APEX) else "0"
    if package == "paddlepaddle":
        build = situation.build("paddle")
        return build.version if build is not None else None
    return situation.version(package)


def own_modules(program: Program, path: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the texts of modules beside the program: its imports (True), then theirs."""
    places = [
        place for place in path if "site-packages" not in place and not place.startswith(sys.base_prefix)
    ]
    queue = [(file, True) for file in _files(program.tree, "", places)]
    seen: set[str] = set()
    while queue and len(seen) < _MOST:
        file, direct = queue.pop(0)
        if file in seen or not (text := _text_of(file)):
            continue
        seen.add(file)
        yield text, direct
        queue += [(inner, False) for inner in _files(parsed(text), os.path.dirname(file), places)]


def _files(tree: ast.Module, folder: str, places: Sequence[str]) -> Iterator[str]:
    """Yield the possible files of imported modules and their packages."""
    for node in ast.walk(tree):
        within = places
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names]
            if node.level:
                within = [os.path.join(folder, *[os.pardir] * (node.level - 1))]
        else:
            continue
        parts = [name.split(".") for name in names]
        for base in (
            os.path.join(place, *name[:end])
            for name in parts
            for end in range(1, len(name) + 1)
            for place in within
        ):
            yield f"{base}.py"
            yield os.path.join(base, "__init__.py")


def _text_of(file: str) -> str:
    try:
        if os.path.getsize(file) <= _BIG:
            with open(file, encoding="utf-8", errors="replace") as handle:
                return handle.read()
    except OSError:
        pass
    return ""
