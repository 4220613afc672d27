"""The value in the failing line that is of the kind which the error names: what it is, what set it, and of a
list whether tensors are in it."""

from __future__ import annotations

import ast
import re

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import node_at
from nbdist.store.reports import Call
from nbdist.text import Both, both

_KIND = re.compile(r"'(\w+)' object\b|(?<!is )(?<!are )\b(?:not|got|found) (?:an? )?'?(\w+)")
_INT = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?[\d.e+-]*\.[\d.e+-]*")
_LOADS = re.compile(r"\bload\w*\(|state_dict\(")
_ASKED = re.compile(r"^AttributeError: '(?P<kind>list|tuple)' object has no attribute '(?P<name>\w+)'")
_OF_TENSORS = re.compile(r"(?:list|tuple) of \d+ \((?:\w*Tensor|Parameter|\w*ParamBase) \(")
_OF_PLAIN = re.compile(r"(?:list|tuple) of \d+(?: \(ndarray \([\d, ]*\)\))?$|\(")
_COMPILED = re.compile(r"\.p(?:yx|xd|xi)$")


def of_kind(failure: Failure) -> Hint | None:
    """Of the one value in the failing line that is of the kind which the error names, where the line itself,
    or what it calls that is not of Python, has raised."""
    said = failure.said
    own = list(failure.own_frames)
    if not own or not all(
        _COMPILED.search(one.file) for one in failure.frames[failure.frames.index(own[-1]) + 1 :]
    ):
        return None
    kinds = {kind for found in _KIND.findall(said.partition(": ")[2]) for kind in found if kind}
    named = [one for one in failure.operands if _kind(one.what) in kinds]
    if len(named) != 1:
        return None
    at = origin_of(named[0].name, own, failure, named[0].what)
    where = both("diagnosis.value-origin", line=at.line, source=at.source) if at is not None else Both("", "")
    return hint("value-of-kind", name=named[0].name, what=named[0].what, where=where)


def of_called(failure: Failure) -> Hint | None:
    """Of what the failing line calls, and is no function: with the line that set it."""
    kind = failure.found.get("kind") or ""
    at = failure.place
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources) if at else None
    called = {
        ast.unparse(one.func)
        for one in ast.walk(statement or ast.Module([], []))
        if isinstance(one, ast.Call)
    }
    named = [one for one in failure.operands if one.name in called and _kind(one.what) == kind]
    own = list(failure.own_frames)
    origin = origin_of(named[0].name, own, failure, named[0].what) if len(named) == 1 and own else None
    if origin is None:
        return None
    row = "weights-called" if kind.endswith("dict") and _LOADS.search(origin.source) else "value-called"
    return hint(row, name=origin.name, what=named[0].what, line=origin.line, source=origin.source)


def of_listed(failure: Failure) -> Hint | None:
    """Of a list in the failing line that is asked for a method of tensors: which one, and what is in it."""
    found, at = _ASKED.match(failure.said), failure.place
    if found is None or at is None or failure.frames[-1] is not at:
        return None
    asked = {
        ast.unparse(one.value)
        for one in ast.walk(
            node_at(Call(file=at.file, line=at.line, function=""), failure.sources) or ast.Pass()
        )
        if isinstance(one, ast.Attribute) and one.attr == found["name"]
    }
    named = [one for one in failure.operands if one.name in asked and _kind(one.what) == found["kind"]]
    if len(named) != 1:
        return None
    (one,) = named
    values = {"of": one.name, "what": one.what, **found.groupdict()}
    if _OF_TENSORS.match(one.what):
        return hint("list-of-tensors", **values)
    return hint("list-of-others", **values) if _OF_PLAIN.match(one.what) else None


def _kind(what: str) -> str:
    """``tuple`` of ``(3, 3)``, ``float`` of ``3.5``, ``int`` of ``3``, ``list`` of ``list of 3``."""
    if what.startswith("("):
        return "tuple"
    if _INT.fullmatch(what):
        return "int"
    return "float" if _FLOAT.fullmatch(what) else what.partition(" ")[0]
