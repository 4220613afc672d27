"""Of an attribute that an object of a class of the program has not: what sets it there, and has not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from nbdist.diagnosis.places import parsed
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.sides import hint
from nbdist.diagnosis.signatures import Hint
from nbdist.diagnosis.statements import holds

_Method = ast.FunctionDef | ast.AsyncFunctionDef
_MISSING = re.compile(r"^AttributeError: '(?P<kind>\w+)' object has no attribute '(?P<name>\w+)'")
_NO_NAME = re.compile(r"^NameError: name '(?P<name>\w+)' is not defined")
_OF_CALL = re.compile(r"^TypeError: (?P<kind>\w+)(?:\.__init__)?\(\) (?:takes |got an unexpected keyword)")
_OF_LABELS = re.compile(r"forward\(\) got an unexpected keyword argument 'labels'")
_TAKES_LABEL = re.compile(r"def forward\([^)]*\blabel\b")
_CONSTRUCTOR = "__init__"
# without its underscores, as it is written by mistake
_NEARLY = re.compile(r"i(?:ni?t|nti|tin|nii?t|nitt)", re.IGNORECASE)
_SPECIAL = {
    "__len__": re.compile(r"^TypeError: object of type '(?P<kind>\w+)' has no len\(\)"),
    "forward": re.compile(
        r'^NotImplementedError: Module \[(?P<kind>\w+)\] is missing the required "forward"'
    ),
    "__getitem__": re.compile(r"^TypeError: '(?P<kind>\w+)' object is not subscriptable"),
    "__iter__": re.compile(r"^TypeError: '(?P<kind>\w+)' object is not iterable"),
}
"""What an error misses in a class."""

_ON_FIRST = "prepare_data"
_TRAINER = re.compile(r"/(?:lightning/pytorch|pytorch_lightning)/trainer/")
_OTHERS = frozenset({"__setitem__", "__delitem__"})
_ALIKE = 0.75
_REGISTERS = frozenset({"register_buffer", "register_parameter", "add_module", "register_module"})


def of_attribute(failure: Failure) -> Hint | None:
    """Of an attribute that a method sets which is no constructor, or one that was not called, or later."""
    found = _MISSING.match(failure.said)
    classes = _classes(failure)
    own = classes.get(found["kind"]) if found is not None else None
    if found is None or own is None:
        return None
    file, node = own
    bases = [classes[name] for name in map(ast.unparse, node.bases) if name in classes]
    sets = [
        (where, at, method, one)
        for where, at in [own, *bases]
        for method in _methods(at)
        for one in _setting(method, found["name"])
    ]
    if not sets and not bases and _is_of_base(found["name"], failure):
        return _of_uncalled_base(node, file, failure)
    methods = {method.name for _, _, method, _ in sets}
    if len(methods) != 1 or len({where for where, *_ in sets}) != 1:
        return None
    where, of, method, first = sets[0]
    values = {"kind": node.name, "name": found["name"], "line": failure.sources.at(where, first.lineno)}
    if method.name != _CONSTRUCTOR:
        if method.name == _ON_FIRST and _by_lightning(failure):
            return hint("attribute-of-prepare-data", **values, rank=str(failure.rank))
        misspelt = of is node and _misspelt(node) is method
        row = "constructor-misspelt" if misspelt else "attribute-set-elsewhere"
        line = failure.sources.at(where, method.lineno) if misspelt else values["line"]
        return hint(row, **{**values, "line": line}, method=method.name)
    if of is not node:
        mine = next((one for one in _methods(node) if one.name == _CONSTRUCTOR), None)
        calls_none = mine is not None and _CONSTRUCTOR not in _attributes(mine)
        return hint("attribute-of-base", **values, base=of.name) if calls_none else None
    within = [one.line for one in failure.frames if one.file == file and holds(method, one.line)]
    if within and all(one.lineno > within[-1] for *_, one in sets):
        return hint("attribute-set-below", **values)
    if within and [one.lineno for *_, one in sets] == within[-1:]:
        return hint("attribute-of-itself", **values)
    return None


def _is_of_base(name: str, failure: Failure) -> bool:
    """Whether a library has asked the object for what is its own, and not for what it may have or not."""
    last = [one for one in failure.frames[-2:] if not failure.sources.is_own(one.file)]
    own = name.startswith("_") or any(re.search(rf"\bself\.{name}\b", one.source) for one in last)
    return bool(last) and last[-1] == failure.frames[-1] and own


def _of_uncalled_base(node: ast.ClassDef, file: str, failure: Failure) -> Hint | None:
    """Of a class whose constructor does not call that of its base, which sets what a library asks for."""
    own = next((one for one in _methods(node) if one.name == _CONSTRUCTOR), None)
    if own is None or not node.bases or _CONSTRUCTOR in _attributes(own):
        return None
    line = failure.sources.at(file, own.lineno)
    return hint("base-not-called", kind=node.name, base=ast.unparse(node.bases[0]), line=line)


def _by_lightning(failure: Failure) -> bool:
    """Whether Lightning's Trainer runs the program on a rank on which it does not prepare the data."""
    return failure.rank > 0 and any(_TRAINER.search(one.file) for one in failure.frames)


def of_self(failure: Failure) -> Hint | None:
    """Of a name that is not defined in a method, and is an attribute or a method of its class."""
    found, at = _NO_NAME.match(failure.said), failure.place
    for file, node in _classes(failure).values() if found is not None and at is not None else ():
        if found is None or at is None or file != at.file or not holds(node, at.line):
            continue
        for method in _methods(node):
            line = method.lineno if method.name == found["name"] else None
            line = next((one.lineno for one in _setting(method, found["name"])), line)
            if line is not None:
                return hint(
                    "name-without-self",
                    kind=node.name,
                    name=found["name"],
                    line=failure.sources.at(file, line),
                )
    return None


def of_constructor(failure: Failure) -> Hint | None:
    """Of a class that was called with more than it takes: what its constructor takes, or which it has."""
    found = _OF_CALL.match(failure.said)
    file, node = _classes(failure).get(found["kind"], ("", None)) if found is not None else ("", None)
    if node is None:
        return None
    for own in (one for one in _methods(node) if one.name == _CONSTRUCTOR):
        if ast.unparse(own.args) == own.args.args[0].arg:
            line = failure.sources.at(file, own.lineno)
            return hint("constructor-takes-none", kind=node.name, line=line)
    method = _misspelt(node)
    if method is None:
        return None
    line = failure.sources.at(file, method.lineno)
    return hint("constructor-misspelt", kind=node.name, method=method.name, line=line)


def of_renamed_label(failure: Failure) -> Hint | None:
    """Of ``labels`` that a forward() does not take, and takes as ``label``: the collator of transformers has
    given them the other name."""
    place, found = failure.place, _OF_LABELS.search(failure.said)
    text = failure.sources.text(place.file) if place is not None else ""
    takes = _TAKES_LABEL.search(text)
    by_trainer = any("/transformers/" in frame.file for frame in failure.frames)
    return hint("trainer-renames-label") if found and takes and by_trainer else None


def of_special(failure: Failure) -> Hint | None:
    """Of a method that a class is asked for: one of nearly that name, or one that is within another."""
    for special, pattern in _SPECIAL.items():
        found = pattern.match(failure.said)
        file, node = _classes(failure).get(found["kind"], ("", None)) if found is not None else ("", None)
        if node is None:
            continue
        values = {"kind": node.name, "special": special}
        for method in _methods(node):
            inner = (one for one in ast.walk(method) if isinstance(one, _Method) and one is not method)
            within = next((one for one in inner if one.name == special), None)
            if within is not None:
                line = failure.sources.at(file, within.lineno)
                return hint("method-within-method", **values, method=method.name, line=line)
            if method.name != special and _is_nearly(method.name, special):
                line = failure.sources.at(file, method.lineno)
                return hint("special-misspelt", **values, method=method.name, line=line)
    return None


def _is_nearly(name: str, special: str) -> bool:
    if name in _OTHERS:
        return False
    one, other = name.replace("_", "").lower(), special.strip("_")
    return bool(get_close_matches(one, [other], cutoff=_ALIKE)) or (one, other) == ("length", "len")


def _classes(failure: Failure) -> dict[str, tuple[str, ast.ClassDef]]:
    """The classes in the files of the program that a failure went through, but those that are there twice."""
    files = dict.fromkeys(one.file for one in failure.frames if failure.sources.is_own(one.file))
    found = [
        (file, node)
        for file in files
        for node in ast.walk(parsed(failure.sources.text(file)) or ast.Module([], []))
        if isinstance(node, ast.ClassDef)
    ]
    names = [node.name for _, node in found]
    return {node.name: (file, node) for file, node in found if names.count(node.name) == 1}


def _methods(node: ast.ClassDef) -> list[_Method]:
    return [one for one in node.body if isinstance(one, _Method) and one.args.args]


def _misspelt(node: ast.ClassDef) -> _Method | None:
    """The method that was to be the constructor of a class that has none."""
    if any(isinstance(one, _Method) and one.name == _CONSTRUCTOR for one in node.body):
        return None
    nearly = [one for one in _methods(node) if _NEARLY.fullmatch(one.name.replace("_", ""))]
    return nearly[0] if len(nearly) == 1 else None


def _setting(method: _Method, name: str) -> Iterator[ast.stmt | ast.expr]:
    """What sets an attribute of the object that a method is called of."""
    mine = method.args.args[0].arg
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr == name and ast.unparse(node.value) == mine:
                yield node
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if called in _REGISTERS and node.args[0].value == name:
                yield node


def _attributes(method: _Method) -> set[str]:
    return {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)}
