"""The name that is nearest to one that an error misses, of those that there are.

Only the labels of a pandas index are asked of an object; nothing of the program runs.
"""

from __future__ import annotations

import ast
import builtins
import re

from nbdist.worker.failure.looks import is_class, members, module_of, mro
from nbdist.worker.failure.operands import MEMBERS, MISSING, attribute, frames_of, statement_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

_NUMBERS = re.compile(r"\d+")
_MOST_LABELS = 1_000

_ALIKE = 0.75
"""By ``difflib``'s measure, how much a name that is misspelt is like the right one."""


def nearest(error: BaseException, trace: TracebackType | None) -> str:
    """Empty for none."""
    name = error.args[0] if isinstance(error, KeyError) and error.args else getattr(error, "name", None)
    if not isinstance(name, str) or isinstance(error, UnboundLocalError):
        return ""
    if isinstance(error, KeyError) and trace is not None:
        names = _labels(frames_of(trace)[-1][0].f_locals.get("self"))
        same = [one for one in names if one.strip().lower() == name.strip().lower()]
        if same:
            return min(same)
    elif isinstance(error, AttributeError):
        names = _names(getattr(error, "obj", None))
    elif isinstance(error, NameError) and trace is not None:
        frame, line = frames_of(trace)[-1]
        known = {**vars(builtins), **frame.f_globals, **frame.f_locals}
        asked = _asked(name, frame, line)
        names = {one for one, value in known.items() if all(_has(value, each) for each in asked)}
    else:
        return ""
    from difflib import get_close_matches  # few errors miss a name

    plain = _NUMBERS.sub("0", name)
    # another number is the name of another thing:  person_0057  and  person_0079
    others = {one for one in names if _NUMBERS.sub("0", one) != plain}
    return next(iter(get_close_matches(name, others, n=1, cutoff=_ALIKE)), "")


def _asked(name: str, frame: FrameType, line: int) -> set[str]:
    """What the line asks of a name: ``backward`` of  ``scaled.backward()`` ."""
    statement = statement_of(frame, line)
    return {
        node.attr
        for node in (ast.walk(statement) if statement is not None else ())
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def _has(value: Any, name: str) -> bool:
    return name in _names(value) or attribute(value, name) is not MISSING


def _names(of: Any) -> set[str]:
    """The attributes of an object, a class or a module."""
    found = {name for one in mro(of if is_class(of) else type(of)) for name in members(one)}
    own = members(of)
    for every in (own, *(own.get(each) for each in MEMBERS)):
        found |= set(every) if isinstance(every, dict) else set()
    return found


def _labels(of: Any) -> set[str]:
    """The names of columns or rows in an index of pandas, which has looked for one of them."""
    is_index = module_of(type(of)).partition(".")[0] == "pandas" and hasattr(type(of), "get_loc")
    if not is_index or of.size > _MOST_LABELS:
        return set()
    return {one for one in of.tolist() if type(one) is str}
