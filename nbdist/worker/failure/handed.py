"""What a library was handed of which its error complains: the value is followed from the line that raised out
to the call in the program, or to the object of a library that has kept it.

Nothing of the program runs for it.
"""

from __future__ import annotations

import ast
import re

from nbdist.worker.failure.annotations import function_of
from nbdist.worker.failure.arguments import (
    all_names,
    called_of,
    defaults_of,
    is_set,
    made_by,
    object_of,
    of_library,
    said,
    unwrapped,
)
from nbdist.worker.failure.looks import is_among, members, mro, name_of
from nbdist.worker.failure.operands import MISSING, frames_of, is_library, statement_of, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType
    from typing import Any

    from nbdist.worker.failure.arguments import Function, Given

    Frames = list[tuple[FrameType, int]]

_KINDS = (
    re.compile(r"'([\w.]+)' object\b"),
    re.compile(
        r"\b(?:got|received|given|found)(?: an?)?(?:(?: value| object| instance)? of)?(?: type)?"
        r" (?:<class )?['\"]?([A-Za-z_][\w.]*)"
    ),
    # what is not set is no set
    re.compile(r"\b(?:not|of type) (?!set\b)(?:<class )?['\"]?([A-Za-z_][\w.]*)"),
    re.compile(r"'([\w.]+)' and '[\w.]+'"),
    re.compile(r"'[\w.]+' and '([\w.]+)'"),
)
_WANTED = re.compile(r"\b(?:expect\w*|must|should|wants?|requires?|needs?|accepts?) [^,.;:()]*$")
"""What stands before the kind that an error would have, in place of the one that it got."""

_ASKED = ("__getattr__", "__getattribute__")
_UNPACKED = "unpacked"
"""What is taken apart, of any kind."""

_GOT = ("got", "received", "given", "found")
_ODD = ("str", "bytes", "list", "tuple", "dict", "set")
"""Of several kinds that an error names, these are likelier to be wrong than others."""

_PASSING = frozenset({"NoneType", "bool", "int", "dtype", "DataType", "object"})
"""Such a value is the same one wherever it stands: it is not followed."""

_COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
_MOST, _MOST_ITEMS, _MOST_OBJECTS, _MOST_ALL, _LONGEST, _BEFORE = 6, 100, 12, 300, 2000, 60


def handed(error: BaseException, trace: TracebackType | None) -> list[Given]:
    """The likeliest first; none of what the program raised itself."""
    frames = frames_of(trace)
    # by which an object has said that it has no such attribute: the line before has asked for it
    while frames and frames[-1][0].f_code.co_name in _ASKED:
        frames.pop()
    if len(frames) < 2 or not of_library(frames[-1][0]):
        return []
    found: list[Given] = []
    for value in _complained(frames, _kinds(str(error)[:_LONGEST]) - _PASSING):
        given = _followed(frames, value)
        found += [given] if given is not None else _kept(frames, value)
    return found[:_MOST]


def _kinds(said: str) -> set[str]:
    """Those that an error names, but the one that it wants."""
    if "values to unpack" in said:
        return {_UNPACKED}
    return {
        found[1].rpartition(".")[2]
        for one in _KINDS
        for found in one.finditer(said)
        if found[0].startswith(_GOT)
        or _WANTED.search(said[max(0, found.start() - _BEFORE) : found.start()]) is None
    }


def first(complained: list[Given], unfit: list[Given]) -> list[Given]:
    """What an error complains of before what else does not fit, with the annotation where it has one."""
    annotated = {told[2:4]: told for told in unfit}
    found = [annotated.pop(told[2:4], told) for told in complained]
    return [*found, *annotated.values()]


def _complained(frames: Frames, kinds: set[str]) -> list[Any]:
    """What the line that raised works with, of these kinds, and what it has taken that from in a loop."""
    frame, line = frames[-1]
    statement = statement_of(frame, line) if kinds else None
    if statement is None:
        return []
    found: dict[int, Any] = {}
    if _UNPACKED in kinds and isinstance(statement, (ast.For, ast.Assign)):
        taken = value_of(statement.iter if isinstance(statement, ast.For) else statement.value, frame)
        # a loop takes the items apart
        items = taken[:_MOST] if type(taken) is tuple and isinstance(statement, ast.For) else ()
        found |= {id(one): one for one in (taken, *items) if one is not MISSING}
    loops: dict[int, Any] = {}
    for node in ast.walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            value = value_of(node, frame)
            if value is not MISSING and name_of(type(value)) in kinds:
                found[id(value)] = value
        elif isinstance(node, ast.Call):
            for one in _handed_on(node, frame):
                if name_of(type(one)) in kinds:
                    found[id(one)] = one
        elif isinstance(node, ast.comprehension):
            # until Python 3.12 a comprehension has a frame of its own
            outer = frames[-2][0] if frame.f_code.co_name in _COMPREHENSIONS else frame
            # a generator may be read far from where it was written
            if outer is not frame and not is_among(frame.f_code, outer.f_code.co_consts):
                continue
            every = value_of(node.iter, outer)
            if every is not MISSING and name_of(type(value_of(node.target, frame))) in kinds:
                loops[id(every)] = every
    alone = sorted(found.values(), key=lambda one: name_of(type(one)) not in _ODD)
    return [*alone, *(one for key, one in loops.items() if key not in found)]


def _handed_on(call: ast.Call, frame: FrameType) -> list[Any]:
    """What is in ``*args`` and ``**kwargs`` of a call."""
    every = [value_of(one.value, frame) for one in call.args if isinstance(one, ast.Starred)]
    named = [value_of(one.value, frame) for one in call.keywords if one.arg is None]
    found = [one for values in every if type(values) is tuple for one in values[:_MOST_ITEMS]]
    return found + [
        one for values in named if type(values) is dict for one in list(values.values())[:_MOST_ITEMS]
    ]


def _followed(frames: Frames, value: Any) -> Given | None:
    """From frame to frame as a parameter, as far out as the program."""
    told: tuple[str, str, int, str] | None = None
    as_it_came = True
    for at in range(len(frames) - 1, 0, -1):
        (own, line), (frame, now) = frames[at - 1], frames[at]
        if frame.f_code.co_name in _COMPREHENSIONS:
            continue
        inner = object_of(frames[at + 1][0]) if at + 1 < len(frames) else None
        parameter = _parameter(frame, now, value, told[1] if told is not None else "", inner)
        if parameter is None:
            return None
        name, place, names, unset = parameter
        as_it_came = as_it_came and unset
        if names or told is None:
            told = called_of(frame), name, place, names
        else:
            told = told[0], told[1], place, told[3]  # handed on as it came
        if not is_library(own.f_code.co_filename):
            return own.f_code.co_filename, line, *told[:3], said(value), "", told[3], as_it_came
    return None


def _parameter(
    frame: FrameType, line: int, value: Any, like: str, inner: Any
) -> tuple[str, int, str, bool] | None:
    """The name that a value came by, its place, the names of all parameters (none of what came in ``*args``
    or ``**kwargs``), and whether no line before sets it. The place counts without the object that a method is
    called of, ``inner`` where the frame only hands it on."""
    function = function_of(frame.f_code)
    if function is None:
        return None
    given = function.args
    positional = [one.arg for one in (*given.posonlyargs, *given.args)]
    first = 1 if positional[:1] in (["self"], ["cls"]) else 0
    names = [*positional[first:], *(one.arg for one in given.kwonlyargs)]
    same = [name for name in names if frame.f_locals.get(name, MISSING) is value]
    if len(same) > 1 and like in same:
        same = [like]
    if same:
        if len(same) > 1 or _may_be_default(function, same[0], value, frame):
            return None
        # equal texts are often one and the same
        if type(value) is str and not _reads(frame, line, same[0]):
            return None
        place = positional.index(same[0]) - first if same[0] in positional else -1
        return same[0], place, all_names(function), not is_set(function, same[0], line)
    if given.vararg is not None and not is_set(function, given.vararg.arg, line):
        every = frame.f_locals.get(given.vararg.arg, ())[:_MOST_ITEMS]
        first += int(not positional and inner is not None and every[:1] != () and every[0] is inner)
        for place, one in enumerate(every):
            if one is value:
                return f"*{given.vararg.arg}", place + len(positional) - first, "", True
    if given.kwarg is not None and not is_set(function, given.kwarg.arg, line):
        for key, one in list(frame.f_locals.get(given.kwarg.arg, {}).items())[:_MOST_ITEMS]:
            if one is value:
                return str(key), -1, "", True
    return None


def _may_be_default(function: Function, name: str, value: Any, frame: FrameType) -> bool:
    """Whether a value is what a parameter has where nothing is given."""
    node = defaults_of(function).get(name)
    if node is None:
        return False
    if value_of(node, frame) is value:
        return True
    plain = type(value) in (str, float, list, tuple, dict)
    return plain and ast.unparse(node) == repr(value)[:_LONGEST]


def _reads(frame: FrameType, line: int, name: str) -> bool:
    statement = statement_of(frame, line)
    nodes = ast.walk(statement) if statement is not None else ()
    return any(isinstance(one, ast.Name) and one.id == name for one in nodes)


def _kept(frames: Frames, value: Any) -> Iterator[Given]:
    """Of the objects of libraries that the traceback went through, and of those within them: what has kept
    the value as it came."""
    if type(value) is float:
        return
    read = {name for frame, _ in frames for name in frame.f_code.co_names}
    outer = {id(one): one for frame, _ in reversed(frames) if (one := object_of(frame)) is not None}
    objects = dict(list(outer.items())[:_MOST_OBJECTS])
    for of in list(objects.values()):
        objects |= {id(one): one for one in list(members(of).values())[:_MOST_ITEMS]}
    for of in list(objects.values())[:_MOST_ALL]:
        for attribute, one in list(members(of).items())[:_MOST_ITEMS]:
            # equal texts are often one and the same
            if one is value and (type(value) is not str or attribute in read):
                yield from _keeping(of, attribute, value)


def _keeping(of: Any, attribute: str, value: Any) -> Iterator[Given]:
    """The methods of an object that set an attribute to what they are given."""
    makes: str | None = None
    for kind in mro(type(of)):
        own = members(kind)
        for method in map(unwrapped, own.values()):
            code = method.__code__ if method is not None else None
            if code is None or attribute not in code.co_names or not is_library(code.co_filename):
                continue
            function = function_of(code)
            name = _set_from(function, attribute) if function is not None else ""
            if function is None or not name:
                continue
            names = all_names(function)
            made = code.co_name == "__init__"
            # another constructor hands it on, which has its own places
            names = makes if made and makes is not None else names
            if name not in names.split():
                continue
            place = names.split().index(name) - names.startswith("self ")
            for called in made_by(of, kind) if made else [f"{name_of(kind)}.{code.co_name}"]:
                yield "", 0, called, name, place, said(value), "", names, True
        if "__init__" in own and makes is None:
            makes = _outer_names(unwrapped(own["__init__"]))


def _outer_names(make: Any) -> str | None:
    """The parameters of a constructor; None of one that hands on all as it came."""
    function = (
        function_of(make.__code__) if make is not None and is_library(make.__code__.co_filename) else None
    )
    if function is None:
        return ""
    return None if function.args.vararg is not None and not function.args.args[1:] else all_names(function)


def _set_from(function: ast.FunctionDef | ast.AsyncFunctionDef, attribute: str) -> str:
    """``optimizer`` of  ``self._optimizer = optimizer`` ; empty where it is not the parameter as it came."""
    sets = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Attribute) and one.attr == attribute for one in node.targets)
    ]
    given = [(node.value.id, node.lineno) for node in sets if isinstance(node.value, ast.Name)]
    if len(given) != 1 or given[0][0] not in all_names(function).split():
        return ""
    return given[0][0] if not is_set(function, *given[0]) else ""
