"""Methods of the program's classes that are nearly those of a library's class, which does not call them: a
hook by another name."""

from __future__ import annotations

import sys
import types

from nbdist.worker.failure.looks import members, module_of, mro, name_of
from nbdist.worker.failure.operands import frames_of, is_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_ALIKE, _SHORTEST = 0.85, 6
_MOST, _MOST_CLASSES, _MOST_VALUES = 2, 20, 100


def nearly(trace: TracebackType | None) -> list[tuple[str, str, str, str]]:
    """Class and method of the program, class and method of the library: of the objects that the functions of
    a traceback have, but for methods that the program calls itself."""
    frames = frames_of(trace)
    kinds = {
        type(value): None for frame, _ in frames for value in list(frame.f_locals.values())[:_MOST_VALUES]
    }
    own = [kind for kind in kinds if _is_own(kind)]
    read = {name for frame, _ in frames for name in frame.f_code.co_names}
    return [one for kind in own[:_MOST_CLASSES] for one in _nearly(kind, read)][:_MOST]


def _nearly(kind: type, read: set[str]) -> Iterator[tuple[str, str, str, str]]:
    from difflib import get_close_matches  # few ranks fail

    classes = mro(kind)
    methods = {name: one for each in classes if _is_own(each) for name, one in members(each).items()}
    codes = [one.__code__ for one in methods.values() if type(one) is types.FunctionType]
    called = read.union(*(code.co_names for code in codes))
    mine = {name for one in classes if _is_own(one) for name in _methods(one)}
    hooks = {name: one for one in reversed(classes) if not _is_own(one) for name in _methods(one)}
    for name in sorted(mine - set(hooks) - called):
        for near in get_close_matches(name, set(hooks) - mine, n=1, cutoff=_ALIKE):
            yield name_of(kind), name, name_of(hooks[near]), near


def _methods(kind: type) -> list[str]:
    return [
        name
        for name, one in members(kind).items()
        if type(one) is types.FunctionType and not name.startswith("_") and len(name) >= _SHORTEST
    ]


def _is_own(kind: type) -> bool:
    file = members(sys.modules.get(module_of(kind))).get("__file__")
    return module_of(kind) == "__main__" or (type(file) is str and not is_library(file))
