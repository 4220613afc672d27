"""How a rank that has waited leaves: what was loaded before its program is not taken apart first.

When the interpreter has ended, libc calls what was registered for the end (atexit(3)), the last first. Late
among that are the destructors of torch's own C++ objects: for a tenth of a second they take table after table
apart, and free memory that goes with the process anyway. The interpreter's own end is of the same kind: much
of it frees, one by one, the code of functions that the imports have brought.
"""

from __future__ import annotations

import ctypes
import gc
import os
import weakref
from contextlib import suppress
from types import FunctionType

_OPERATORS = "torch.library"
"""Takes each operator out of each of the dispatcher's tables, when the process ends."""
_FLUSH = "_ZNSo5flushEv"
_STREAMS = ("_ZSt4cout", "_ZSt4clog")
"""std::ostream::flush, std::cout and std::clog: libstdc++ flushes them later than this."""


def leave_directly() -> None:
    """End the process, with its exit code, when all that is registered from now on has been called and the
    buffers of C and C++ are written. A library that was loaded by LD_PRELOAD may want to have the last word:
    then nothing is changed, nor where libc cannot do it (on_exit(3) is glibc's).
    """
    libc = ctypes.CDLL(None)
    if "LD_PRELOAD" in os.environ or not hasattr(libc, "on_exit"):
        return
    register = libc["__cxa_atexit"]
    # the last to be registered is called first
    libc.on_exit(libc["_exit"], None)
    with suppress(OSError, AttributeError, ValueError):
        streams = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD)
        for name in _STREAMS:
            # as long as nothing that is loaded includes <iostream>, the libstdc++ of GCC 12 and before leaves
            # them zeros; what makes them of these later is registered later, and flushes them itself
            if ctypes.c_void_p.in_dll(streams, name).value is not None:
                register(streams[_FLUSH], ctypes.byref(ctypes.c_char.in_dll(streams, name)), None)
    register(libc["fflush"], None, None)


def keep_code() -> None:
    """Let the code of every function there is outlive the interpreter, and the operators that torch.library
    knows. Code refers to constants alone, so nothing of a later program is kept by it."""
    code = [made.__code__ for made in gc.get_objects() if type(made) is FunctionType]
    # one reference more than there will ever be somebody for
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        if (alive := finalizer.peek()) is not None and alive[1].__module__ == _OPERATORS:
            finalizer.atexit = False
