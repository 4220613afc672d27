"""What a framework's import makes lasts as long as the process: the garbage collector need not look at it.

An interpreter that ends collects several times, and takes a second of a processor for the half a million
objects of torch. ``gc.freeze`` takes them out, but everything else with them; a cycle of the program's
own objects would then never be finalized. So these are put back (the C API's PyObject_GC_Track), and what
is imported gets a stand-in for ``__main__`` (torch._dynamo keeps copies of sys.modules).
"""

from __future__ import annotations

import _weakref
import gc
import sys

from nbdist.worker.import_hooks import around_import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

# the first optimizer imports torch._dynamo, with some 800 more
_LARGE = ("torch", "torch._dynamo", "paddle", "paddle.distributed")

_MOST = 60_000
"""Objects of the program that are worth the time it takes to put them back, some 20 ms."""

_within = False


def watch() -> None:
    """From now on what those imports make is not looked at. To be called before there is a program: what
    there is now lasts, too."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return
    gc.freeze()
    for name in _LARGE:
        around_import(name, _set_apart)


def _set_apart() -> Callable[[], None]:
    """Remember the objects that are there before an import; what is returned freezes all others."""
    global _within
    before = [] if _within else gc.get_objects()
    if _within or len(before) > _MOST:
        return lambda: None
    _within = True
    main = sys.modules["__main__"]
    stand_in = sys.modules["__main__"] = _StandIn(main)

    def after() -> None:
        global _within
        _within = False
        if sys.modules.get("__main__") is stand_in:
            sys.modules["__main__"] = main
        gc.freeze()
        _thaw(before)
        before.clear()

    return after


class _StandIn(type(sys)):  # type: ignore[misc]
    """Has what ``__main__`` has, and does not keep it alive."""

    def __init__(self, main: ModuleType) -> None:
        super().__init__("__main__")
        of_every_module = {name: value for name, value in vars(main).items() if name in vars(self)}
        file = {"__file__": main.__file__} if hasattr(main, "__file__") else {}
        self.__dict__.update(of_every_module | file, _main=_weakref.ref(main))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_main"](), name)


def _thaw(objects: list[object]) -> None:
    """Let the collector look at these again."""
    import ctypes

    untrack, track = ctypes.pythonapi.PyObject_GC_UnTrack, ctypes.pythonapi.PyObject_GC_Track
    for function in (untrack, track):
        function.argtypes, function.restype = (ctypes.py_object,), None
    is_tracked = gc.is_tracked
    for one in objects:
        # a dict or tuple of plain values may have left by itself
        if is_tracked(one):
            untrack(one)
            track(one)
