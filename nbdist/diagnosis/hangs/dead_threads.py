"""Ranks that wait for a thread or a process of theirs that an error has ended."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nbdist.diagnosis.hangs.held import may_be_fed
from nbdist.diagnosis.places import Sources, parsed
from nbdist.diagnosis.sides import Side, hint
from nbdist.diagnosis.signatures import Hint, Signature, match, variant
from nbdist.diagnosis.statements import holds
from nbdist.text import Both

_NO_NUMBER = re.compile(r"KeyError: -?\d+ \(line (?P<line>\d+)\)")
_FROM_JSON = re.compile(r"json\.loads?\(")


def of_threads(held: Sequence[Side], raised: Mapping[int, str], sources: Sources) -> Hint | None:
    """The error of the thread or the process that a rank waits for, and how to mend it."""
    for side in filter(may_be_fed, held):
        for rank in (rank for rank in side.ranks if rank in raised):
            # without workers, paddle reads in a thread, which no program has made itself
            name = "hang-thread-of-loader" if side.place.loads else "hang-thread"
            found, known = hint(name, who=(rank,), error=raised[rank]), match(raised[rank])
            if (of_json := _of_number_key(raised[rank], side, sources)) is not None:
                return found.mended_by(of_json)
            return found if known is None else _with_row(found, *known, side, sources)
    return None


def _with_row(found: Hint, known: Signature, matched: re.Match[str], side: Side, sources: Sources) -> Hint:
    """The hint with the fix of the row that knows the error, with its cause, too, where the program tells."""
    files = dict.fromkeys(call.file for call in side.calls)
    own = (sources.text(file) for file in files if sources.is_own(file))
    row = variant(known, "\n".join([*own, *files]), matched.groupdict())
    told = Hint.of(row, matched.groupdict())
    if row is not known:
        cause = Both(f"{found.cause.en}; {told.cause.en}", f"{found.cause.zh}；{told.cause.zh}")
        found = replace(found, cause=cause)
    return found.mended_by(told)


def _of_number_key(error: str, side: Side, sources: Sources) -> Hint | None:
    """Of a number that was no key in a line which looks it up in what the file has made from JSON."""
    found = _NO_NUMBER.fullmatch(error)
    if found is None or not side.way:
        return None
    tree = parsed(sources.text(side.way[-1].file)) or ast.Module([], [])
    nodes = list(ast.walk(tree))
    made = {
        ast.unparse(target).rpartition(".")[2]
        for one in nodes
        if isinstance(one, ast.Assign) and _FROM_JSON.match(ast.unparse(one.value))
        for target in one.targets
    }
    looked_up = (one for one in nodes if isinstance(one, ast.Subscript) and holds(one, int(found["line"])))
    names = [ast.unparse(one.value) for one in looked_up if isinstance(one.value, ast.Name | ast.Attribute)]
    name = next((one for one in names if one.rpartition(".")[2] in made), None)
    return hint("key-of-json", name=name) if name is not None else None
