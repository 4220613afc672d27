"""Variables that the program sets, and nbdist has set already."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbdist.diagnosis.checks.finding import Finding, found
from nbdist.diagnosis.checks.places import Place
from nbdist.diagnosis.checks.program import Program
from nbdist.diagnosis.checks.situation import Situation

SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "paddle.distributed.spawn")
_HERE = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", ""})
_NUMBERS = {"RANK": "rank", "WORLD_SIZE": "world_size", "LOCAL_RANK": "rank", "PADDLE_TRAINER_ID": "rank"}
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MISSPELT = re.compile(r"\bCUDA_VIS(?!IBLE_DEVICES\b)\w*DEV\w*")


def check_environment(program: Program, situation: Situation) -> Iterator[Finding]:
    spawns = any(call.name in SPAWNS for call in program.calls)
    for key, value, node, place in assignments(program):
        line = node.lineno
        if key == _VISIBLE and place.plain:
            if value not in ("", "-1") or situation.gpus:
                shown = value if value and re.fullmatch(r"[\d,]+", value) else "0,1"
                yield found("visible-in-cell", line, said=shown)
        elif value is None or not place.plain:
            continue
        elif key == "MASTER_ADDR" and value not in _HERE:
            yield found("address-elsewhere", line, said=value)
        elif key == "MASTER_PORT" and not (spawns and situation.world_size == 1):
            yield found("address-fixed", line, said=f"port {value}", key=key)
        elif key in _NUMBERS and not spawns:
            wrong = (
                situation.world_size > 1 if _NUMBERS[key] == "rank" else value != str(situation.world_size)
            )
            if wrong:
                yield found(
                    "rank-variable-fixed",
                    line,
                    key=key,
                    said=value,
                    count=situation.world_size,
                )
    yield from _misspelt(program)
    for key in situation.environment:
        if _MISSPELT.fullmatch(key):
            yield found("visible-misspelt", said=f"{key} (environment)")


def _misspelt(program: Program) -> Iterator[Finding]:
    """The first string, a command among them, with a name that is nearly CUDA_VISIBLE_DEVICES."""
    for node in program.places:
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and (match := _MISSPELT.search(text)) is not None:
            yield found("visible-misspelt", node.lineno, said=match[0])  # type: ignore[attr-defined]
            return


def assignments(program: Program) -> Iterator[tuple[str, str | None, ast.stmt, Place]]:
    """``os.environ["KEY"] = VALUE`` and its like; not ``setdefault``, which lets the launcher decide."""
    for node, place in list(program.places.items()):
        match node:
            case ast.Assign(targets=[ast.Subscript(value=mapping, slice=key)], value=value):
                if program.dotted(mapping) == "os.environ":
                    name, said = program.value(key), program.value(value)
                    if isinstance(name, str):
                        yield name, None if said is None else str(said), node, place
            case ast.Expr(value=ast.Call(func=function, args=[key, value])):
                if program.dotted(function) == "os.putenv" and isinstance(name := program.value(key), str):
                    said = program.value(value)
                    yield name, None if said is None else str(said), node, place
            case ast.Expr(value=ast.Call(func=function, args=[ast.Dict() as table])):
                if program.dotted(function) == "os.environ.update":
                    for entry, given in zip(table.keys, table.values, strict=True):
                        name, said = program.value(entry), program.value(given)
                        if isinstance(name, str):
                            yield name, None if said is None else str(said), node, place
