"""A call that fails by how it is made: of a class of which no object was made, without what a function needs,
in place of the function itself, or with what none of torch's signatures takes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from nbdist.diagnosis.clues.origins import origin_of
from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import head, holds, node_at, own_nodes
from nbdist.store.reports import Call
from nbdist.text import Both

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_CLASS = "the class "
_SETTING = re.compile(r"-?\d|True|False|None|str of|the class")
"""What classes are made with: layers are called with more."""

_OF_CLASS = re.compile(r"^(?:TypeError|AttributeError): ")
_MISSING = re.compile(
    r"^TypeError: (?P<called>[\w.<>]+)\(\) missing \d+ required (?:positional|keyword-only) arguments?: "
    r"(?P<names>.+)"
)
_UNKNOWN = re.compile(
    r"^TypeError: (?P<called>[\w.<>]+)\(\) got an unexpected keyword argument '(?P<name>\w+)'"
)
_ALIKE = 0.8
"""Of two names, one of which is written by mistake."""

_OF_BATCHES = ("forward", "__call__", "training_step", "validation_step")
_TAKES_FUNCTION = re.compile(
    r"(?:^|_)(?:fn|func|function|callable|callback|hook|handler|transform|collator|compute_metrics|lambda|key|target)$"
)
"""Parameters by these names take functions."""

NAMELESS = re.compile(r"^.*<locals>\.|\.(?:__init__|forward|__call__)$")
"""What the name of a function has beside that by which it is called."""
_TAKERS = re.compile(
    r"^(?:map|filter|apply\w*|submit|spawn|start_processes|register\w*|add_event_handler|partial|Thread|Timer|Process"
    r"|Lambda\w*|MultiplicativeLR)$"
)
"""What takes functions by their places."""

_MOST = 300
"""Characters of a list of parameters that one still reads."""

_COMBINATION = re.compile(
    r"(?P<called>\w+)\(\) received an invalid combination of arguments - got \((?P<given>[^)]*)\), "
    r"but expected"
)
_BINDING = re.compile(r"^TypeError: (?P<called>\w+)\(\): incompatible function arguments\.")
_BOUND = re.compile(r"^\s+\d+\. \((?P<takes>[^\n]*)\) -> ", re.MULTILINE)
_WITHIN = re.compile(r"'[^'\n]*'|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_SIGNATURE = re.compile(r"^ \* \((?P<takes>.*)\)$", re.MULTILINE)
_TUPLE = "tuple of "
_SIZES, _HOLD = "tuple of ints", ("tuple", "list", "Size")
_INTEGERS = ("int", "bool", "SymInt")
_TAKEN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Tensor", ("Tensor", "Parameter", "Buffer", "NoneType")),
    ("int", _INTEGERS),
    ("float", (*_INTEGERS, "float")),
    ("Number", (*_INTEGERS, "float", "complex", "Tensor")),
    ("bool", ("bool",)),
    ("str", ("str",)),
    (_TUPLE, ("tuple", "list", "Size", "int")),
    ("torch.dtype", ("dtype",)),
    ("torch.device", ("device", "str", "int")),
    ("torch.Generator", ("Generator",)),
)
"""What a signature of torch's says, and the kinds of values that fit."""


def of_class(failure: Failure) -> Hint | None:
    """Of a name in the line that stands for a class, as it was set without brackets."""
    said = failure.said
    own = list(failure.own_frames)
    if not own or _OF_CLASS.match(said) is None:
        return None
    for one in failure.operands:
        kind = one.what.removeprefix(_CLASS)
        if kind == one.what or _is_made(one.name, failure):
            continue
        # the line has made an object of it by mistake
        calls = any(ast.unparse(each.func) == one.name for each in _calls(failure)) and any(
            frame.function == "__init__" for frame in failure.frames[failure.frames.index(own[-1]) + 1 :]
        )
        given = failure.report is not None and any(each.what == one.what for each in failure.report.arguments)
        if not calls and not given and re.search(rf"'self'|\btype\b|\b{re.escape(kind)}\b", said) is None:
            continue
        origin = origin_of(one.name, own, failure, one.what)
        value = origin.source.partition(" = ")[2] if origin is not None else ""
        if origin is not None and value.rpartition(".")[2] == kind:
            line = failure.sources.at(origin.file, origin.line)
            return hint("class-without-call", name=one.name, kind=value, line=line)
    return None


def of_class_as_layer(failure: Failure) -> Hint | None:
    """Of a class that a model has kept without brackets: its forward() makes an object of it by a call."""
    own = list(failure.own_frames)
    for at, (outer, inner) in enumerate(pairwise(own)):
        if outer.function not in _OF_BATCHES or inner.function != "__init__":
            continue
        tree = parsed(failure.sources.text(inner.file)) or ast.Module([], [])
        made = [
            one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and holds(one, inner.line)
        ]
        call = Call(file=outer.file, line=outer.line, function=outer.function)
        for one in own_nodes(node_at(call, failure.sources) or ast.Pass()):
            name = ast.unparse(one.func) if isinstance(one, ast.Call) else ""
            origin = origin_of(name, own[: at + 1], failure) if name.startswith("self.") else None
            value = origin.source.partition(" = ")[2] if origin is not None else ""
            if origin is not None and value.rpartition(".")[2] in made:
                line = failure.sources.at(origin.file, origin.line)
                return hint("class-without-call", name=name, kind=value, line=line)
    return None


def _is_made(name: str, failure: Failure) -> bool:
    """Whether the line makes an object of what a name stands for:  make(10) , and not  net(images) ."""
    more = {one.name for one in failure.operands if _SETTING.match(one.what) is None}
    made = [one for one in _calls(failure) if ast.unparse(one.func) == name]
    given = [[*one.args, *(each.value for each in one.keywords)] for one in made]
    read = [{ast.unparse(node) for each in every for node in ast.walk(each)} for every in given]
    return any(more.isdisjoint(names) for names in read)


def of_function(failure: Failure) -> Hint | None:
    """Of a function that is called without anything where another call takes the function itself."""
    found = _MISSING.match(failure.said)
    if found is None or failure.place is None or failure.frames[-1] != failure.place:
        return None
    for outer in _calls(failure):
        takes = _TAKERS.search(_name(outer.func)) is not None
        for name, inner in [("", one) for one in outer.args if takes] + [
            (one.arg, one.value) for one in outer.keywords if one.arg and _TAKES_FUNCTION.search(one.arg)
        ]:
            if isinstance(inner, ast.Call) and not inner.args and not inner.keywords and _is(inner, found):
                function = ast.unparse(inner.func)
                return hint("function-called", called=function, to=f"{name}={function}" if name else function)
    return None


def of_misspelt(failure: Failure) -> Hint | None:
    """Of a keyword that a function of the program does not take, and takes by nearly that name."""
    found = _UNKNOWN.match(failure.said)
    for file in dict.fromkeys(one.file for one in failure.own_frames) if found is not None else ():
        tree = parsed(failure.sources.text(file)) or ast.Module([], [])
        defined = _defined(found["called"], tree) if found is not None else []
        if found is None or len(defined) != 1:
            continue
        given = defined[0].args
        takes = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        near = get_close_matches(found["name"], takes, n=1, cutoff=_ALIKE)
        if near:
            values = {"called": NAMELESS.sub("", found["called"]), "name": found["name"], "other": near[0]}
            return hint("keyword-misspelt", **values, line=failure.sources.at(file, defined[0].lineno))
    return None


def of_missing(failure: Failure) -> Hint | None:
    """Of a call that leaves out what a function needs."""
    found = _MISSING.match(failure.said)
    if found is None:
        return None
    values = {"called": NAMELESS.sub("", found["called"]), "names": found["names"]}
    report = failure.report
    if report is not None and report.takes and len(report.takes) <= _MOST:
        return hint("argument-missing", **values, takes=report.takes)
    for file in dict.fromkeys(one.file for one in failure.frames if failure.sources.is_own(one.file)):
        tree = parsed(failure.sources.text(file)) or ast.Module([], [])
        defined = [one for one in _defined(found["called"], tree) if _takes(one, found["names"])]
        if len(defined) == 1:
            takes = f"{values['called'].rpartition('.')[2]}({ast.unparse(defined[0].args)})"
            line = failure.sources.at(file, defined[0].lineno)
            return hint("argument-missing-own", **values, takes=takes[:_MOST], line=line)
    return hint("argument-missing-more", **values)


def _defined(called: str, tree: ast.Module) -> list[_Function]:
    """The functions of this name, ``Net.forward`` or ``train.<locals>.step``, in a file."""
    *around, name = called.split(".")
    own = around[-1:] if around and around[-1].isidentifier() else []
    scopes = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and [one.name] == own]
    within = (each for scope in scopes for each in scope.body) if own else ast.walk(tree)
    return [one for one in within if isinstance(one, _Function) and one.name == name]


def _takes(function: _Function, names: str) -> bool:
    """Whether it has the parameters that were missed."""
    given = function.args
    own = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    return own.issuperset(re.findall(r"['\"](\w+)['\"]", names))


@dataclass(frozen=True, slots=True)
class _Taken:
    """A parameter of a signature of torch's."""

    kind: str
    name: str
    by_name: bool
    has_default: bool


def of_overload(failure: Failure) -> Hint | None:
    """Of the argument by which a call misses the signature of torch's that is nearest to it."""
    said = failure.said
    found = _COMBINATION.search(said)
    if found is None:
        return None
    given = [one.strip().rpartition("=") for one in found["given"].split(",") if one.strip()]
    signatures = [_signature(one["takes"]) for one in _SIGNATURE.finditer(said, found.end())]
    missed = [_misses(given, one) for one in signatures]
    if [] in missed:
        return _within(found["called"], given, signatures[missed.index([])], failure)
    ways = [way for way in missed if len(way) == 1]
    # by names and places that they share, several signatures tell the same
    told = list(dict.fromkeys(way[0] for way in ways))
    if not told or len({place for place, _ in told}) > 1:
        return None
    name = given[told[0][0]][0] if told[0][0] >= 0 else ""
    names = {each.name for every in signatures for each in every}
    if name and name not in names:
        near = get_close_matches(name, names, n=1)
        values = {"called": found["called"], "name": name}
        return hint("keyword-renamed", **values, other=near[0], takes="") if near else None
    place, one = min(told, key=lambda way: (way[1] is None, way[1].name if way[1] else ""))
    if one is None or place < 0:
        return None
    name, _, kind = given[place]
    source = _source(found["called"], place, name, failure)
    values = {
        "called": found["called"],
        "place": place + 1,
        "kind": kind.rpartition(".")[2],
        "source": source,
    }
    row = "overload-by-name" if one.by_name and not name else "overload-unfit"
    kinds = dict.fromkeys(other.kind for _, other in told if other is not None and other.name == one.name)
    return hint(row, **values, takes=" or ".join(kinds), name=one.name)


def of_binding(failure: Failure) -> Hint | None:
    """Of an argument that none of the signatures of a function of C++ has, by its name."""
    said = failure.said
    found = _BINDING.match(said)
    given = said.rpartition("kwargs: ")[2] if found is not None and "kwargs: " in said else ""
    while (outer := _WITHIN.sub("", given)) != given:
        given = outer
    names = re.findall(r"(?:^|, )(\w+)=", given)
    signatures = [one["takes"] for one in _BOUND.finditer(said)]
    unknown = [name for name in names if not any(re.search(rf"\b{name}:", one) for one in signatures)]
    if found is None or not signatures or len(unknown) != 1:
        return None
    takes = " or ".join(re.sub(r"self: [^,)]*,? ?", "", one) or "nothing" for one in signatures)[:_MOST]
    return hint("keyword-not-taken", called=found["called"], name=unknown[0], takes=takes)


def _within(
    called: str, given: Sequence[tuple[str, str, str]], takes: Sequence[_Taken], failure: Failure
) -> Hint | None:
    """Of a call whose arguments fit by their kinds: one of them is a tuple with something else in it."""
    places = [one for one in takes if not one.by_name]
    held = [
        (at, one)
        for at, (name, _, kind) in enumerate(given)
        for one in ([each for each in takes if each.name == name] if name else places[at : at + 1])
        if one.kind.startswith(_TUPLE) and kind in ("tuple", "list")
    ]
    if len(held) != 1:
        return None
    place, one = held[0]
    source = _source(called, place, given[place][0], failure)
    items = one.kind.removeprefix(_TUPLE)
    return hint("overload-within", called=called, name=one.name, items=items, source=source)


def _signature(text: str) -> list[_Taken]:
    parameters, by_name = [], False
    for part in text.split(", "):
        if part == "*":
            by_name = True
            continue
        told, _, default = part.partition(" = ")
        kind, _, name = told.rpartition(" ")
        parameters.append(_Taken(kind, name, by_name, bool(default)))
    return parameters


def _misses(
    given: Sequence[tuple[str, str, str]], takes: Sequence[_Taken]
) -> list[tuple[int, _Taken | None]]:
    """The places of arguments that a signature does not take, and what it has there."""
    missed: list[tuple[int, _Taken | None]] = []
    places = [one for one in takes if not one.by_name]
    left = {one.name for one in takes if not one.has_default}
    # sizes may be given one by one
    last = len(places) - 1
    one_by_one = (
        bool(places)
        and places[-1].kind == _SIZES
        and [name for name, _, kind in given[last:] if kind in _HOLD] == []
    )
    for at, (name, _, kind) in enumerate(given):
        one = next((each for each in takes if each.name == name), None) if name else None
        if not name and at < len(places):
            one = places[at]
        if not name and one_by_one and at >= last:
            missed += [] if kind in _INTEGERS else [(at, places[-1])]
            left -= {places[-1].name}
            continue
        if not name and one is None:
            named = [each for each in takes if each.by_name and _fits(kind, each.kind)]
            missed.append((at, named[0] if len(named) == 1 else None))
            left -= {each.name for each in named}
        elif one is None or not _fits(kind, one.kind):
            missed.append((at, one))
        left -= {one.name} if one is not None else set()
    return missed if not left else [*missed, *((-1, None) for _ in left)]


def _fits(kind: str, taken: str) -> bool:
    return kind.rpartition(".")[2] in next((fit for of, fit in _TAKEN if taken.startswith(of)), (kind,))


def _source(called: str, place: int, name: str, failure: Failure) -> Both:
    """``: (2, 2)``, as the line has it."""
    call = next((each for each in _calls(failure) if _name(each.func) == called), None)
    if call is None:
        return Both("", "")
    node = next((one.value for one in call.keywords if name and one.arg == name), None)
    node = call.args[place] if not name and place < len(call.args) else node
    return Both(f":  {head(node)}", f"：{head(node)}") if node is not None else Both("", "")


def _calls(failure: Failure) -> list[ast.Call]:
    """Those in the failing line."""
    at = failure.place
    statement = node_at(Call(file=at.file, line=at.line, function=""), failure.sources) if at else None
    return [one for one in own_nodes(statement) if isinstance(one, ast.Call)] if statement is not None else []


def _is(call: ast.Call, found: re.Match[str]) -> bool:
    return _name(call.func) == found["called"].removesuffix(".__init__").rpartition(".")[2]


def _name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
